-- Makes clicks, 20 a second and up to 4 seconds out of order, and sends them to the topic `clicks`. Runs until Ctrl-C.
-- A broker in another terminal: tidegate broker
CREATE TABLE made (
  n BIGINT,
  user_no INT,
  page_no INT,
  behind INT
) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '20',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '100000000',
  'fields.user_no.min' = '1', 'fields.user_no.max' = '40',
  'fields.page_no.min' = '1', 'fields.page_no.max' = '4',
  'fields.behind.min' = '0', 'fields.behind.max' = '4'
);

CREATE TABLE clicks (
  user_id STRING,
  page STRING,
  ts TIMESTAMP(3)
) WITH (
  'connector' = 'kafka',
  'topic' = 'clicks',
  'properties.bootstrap.servers' = 'localhost:9092',
  'format' = 'json'
);

INSERT INTO clicks
SELECT
  CONCAT('u', CAST(user_no AS STRING)),
  CONCAT('/page/', CAST(page_no AS STRING)),
  CAST(LOCALTIMESTAMP AS TIMESTAMP(3)) - INTERVAL '1' SECOND * behind
FROM made;
