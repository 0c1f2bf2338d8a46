mod machine;
mod model;
mod offsets;
mod store;
