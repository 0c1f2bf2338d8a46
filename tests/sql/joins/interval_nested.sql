-- an interval join of an interval join and a table, then a count for each key
CREATE TABLE taps (
  rider INT, gate STRING, fare DECIMAL(6, 2), `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/taps.json', 'format' = 'json');
CREATE TABLE exits (
  rider INT, station STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/exits.json', 'format' = 'json');
CREATE TABLE out_j (station STRING, n BIGINT) WITH ('connector' = 'print');
INSERT INTO out_j
SELECT t.station, COUNT(*) FROM (
  SELECT a.rider, a.`at` AS t_in, b.`at` AS t_out, b.station FROM taps a, exits b
  WHERE a.rider = b.rider AND b.`at` BETWEEN a.`at` AND a.`at` + INTERVAL '5' MINUTE
) t JOIN taps n ON n.rider = t.rider AND n.`at` BETWEEN t.t_out AND t.t_out + INTERVAL '8' MINUTE
GROUP BY t.station;
