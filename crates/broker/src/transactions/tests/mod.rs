mod coordinator;
mod model;
mod table;
mod world;
