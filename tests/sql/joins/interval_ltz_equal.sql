-- an equality of row times alone is an interval of 0; times are instants of a zone
SET 'table.local-time-zone' = 'Europe/Berlin';
CREATE TABLE taps_ltz (
  rider INT, gate STRING, `at` TIMESTAMP(3), lt AS CAST(`at` AS TIMESTAMP_LTZ(3)),
  WATERMARK FOR lt AS lt - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/taps.json', 'format' = 'json');
CREATE TABLE out_j (rider INT, gate STRING, `at` TIMESTAMP_LTZ(3)) WITH ('connector' = 'print');
INSERT INTO out_j
SELECT x.rider, y.gate, CAST(x.lt AS TIMESTAMP_LTZ(3)) FROM taps_ltz x, taps_ltz y WHERE x.lt = y.lt AND x.rider = y.rider AND y.rider < 12;
