-- a window aggregate over a left interval join counts rows with and without a partner
CREATE TABLE taps (
  rider INT, gate STRING, fare DECIMAL(6, 2), `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/taps.json', 'format' = 'json');
CREATE TABLE exits (
  rider INT, station STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/exits.json', 'format' = 'json');
CREATE TABLE out_j (ws TIMESTAMP(3), n BIGINT, matched BIGINT) WITH ('connector' = 'print');
CREATE TEMPORARY VIEW trips AS
SELECT a.`at` AS t_in, b.station FROM taps a LEFT JOIN exits b
ON a.rider = b.rider AND b.`at` BETWEEN a.`at` AND a.`at` + INTERVAL '5' MINUTE;
INSERT INTO out_j
SELECT window_start, COUNT(*), COUNT(station) FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(t_in), INTERVAL '5' MINUTE))
GROUP BY window_start, window_end;
