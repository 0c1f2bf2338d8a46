-- an interval join without an equality runs in one task
CREATE TABLE taps (
  rider INT, gate STRING, fare DECIMAL(6, 2), `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/taps.json', 'format' = 'json');
CREATE TABLE exits (
  rider INT, station STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/exits.json', 'format' = 'json');
CREATE TABLE out_j (r1 INT, r2 INT, station STRING) WITH ('connector' = 'print');
INSERT INTO out_j
SELECT a.rider, b.rider, b.station FROM taps a JOIN exits b ON a.`at` BETWEEN b.`at` - INTERVAL '1' MINUTE AND b.`at`;
