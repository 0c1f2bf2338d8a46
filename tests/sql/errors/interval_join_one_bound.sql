-- row times bounded on one side only are no interval
CREATE TABLE taps (
  rider INT, gate STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/taps.json', 'format' = 'json');
CREATE TABLE exits (
  rider INT, station STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '@DATA@/exits.json', 'format' = 'json');
CREATE TABLE o (rider INT) WITH ('connector' = 'print');
INSERT INTO o SELECT a.rider FROM taps a JOIN exits b ON a.rider = b.rider AND a.`at` > b.`at`;
