-- a computed key, and a condition over both sides that decides who is padded
CREATE TABLE taps (
  rider INT, gate STRING, fare DECIMAL(6, 2), `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/taps.json', 'format' = 'json');
CREATE TABLE exits (
  rider INT, station STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/exits.json', 'format' = 'json');
CREATE TABLE out_j (rider INT, gate STRING, station STRING) WITH ('connector' = 'print');
INSERT INTO out_j
SELECT a.rider, a.gate, b.station FROM taps a LEFT JOIN exits b ON a.rider + 1 = b.rider
AND a.`at` >= b.`at` - INTERVAL '5' MINUTE AND b.`at` + INTERVAL '5' MINUTE >= a.`at` AND a.fare > b.rider - 10;
