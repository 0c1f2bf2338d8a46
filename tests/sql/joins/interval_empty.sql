-- bounds that no two times meet: nobody has a partner, and nobody waits
CREATE TABLE taps (
  rider INT, gate STRING, fare DECIMAL(6, 2), `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/taps.json', 'format' = 'json');
CREATE TABLE exits (
  rider INT, station STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/exits.json', 'format' = 'json');
CREATE TABLE out_j (r1 INT, r2 INT) WITH ('connector' = 'print');
INSERT INTO out_j
SELECT a.rider, b.rider FROM taps a FULL JOIN exits b
ON a.rider = b.rider AND a.`at` BETWEEN b.`at` + INTERVAL '10' SECOND AND b.`at` - INTERVAL '10' SECOND;
