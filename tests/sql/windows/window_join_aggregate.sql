-- a window aggregate over a window join, which has no key but the window and does not select window_time
CREATE TABLE taps (
  rider INT, gate STRING, fare DECIMAL(6, 2), `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/taps.json', 'format' = 'json');
CREATE TABLE exits (
  rider INT, station STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/exits.json', 'format' = 'json');
CREATE TABLE out_j (ws TIMESTAMP(3), n BIGINT, riders BIGINT) WITH ('connector' = 'print');
INSERT INTO out_j
SELECT L.window_start, COUNT(*), COUNT(DISTINCT L.rider)
FROM (SELECT window_start, window_end, rider FROM TABLE(TUMBLE(TABLE taps, DESCRIPTOR(`at`), INTERVAL '4' MINUTE))) L,
     (SELECT window_start, window_end, rider FROM TABLE(TUMBLE(TABLE exits, DESCRIPTOR(`at`), INTERVAL '4' MINUTE))) R
WHERE L.window_start = R.window_start AND L.window_end = R.window_end
GROUP BY L.window_start, L.window_end;
