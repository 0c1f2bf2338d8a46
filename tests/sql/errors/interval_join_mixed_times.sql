-- row times of an interval join have one type
CREATE TABLE taps (
  rider INT, gate STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/taps.json', 'format' = 'json');
CREATE TABLE exits (
  rider INT, `at` TIMESTAMP(3), lt AS CAST(`at` AS TIMESTAMP_LTZ(3)), WATERMARK FOR lt AS lt
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/exits.json', 'format' = 'json');
CREATE TABLE o (rider INT) WITH ('connector' = 'print');
INSERT INTO o SELECT a.rider FROM taps a JOIN exits b ON a.rider = b.rider AND a.`at` BETWEEN b.lt AND b.lt + INTERVAL '1' MINUTE;
