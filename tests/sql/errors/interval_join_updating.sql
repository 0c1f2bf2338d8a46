-- an interval join takes no updates
CREATE TABLE taps (
  rider INT, gate STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/taps.json', 'format' = 'json');
CREATE TABLE moves (
  rider INT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`, PRIMARY KEY (rider) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/moves_cdc.json', 'format' = 'debezium-json');
CREATE TABLE o (rider INT) WITH ('connector' = 'print');
INSERT INTO o SELECT a.rider FROM taps a JOIN moves b ON a.rider = b.rider AND a.`at` = b.`at`;
