"""The bench's query as one bounded DataFusion query: no watermark, nothing dropped."""
import sys

import pyarrow as pa
from datafusion import SessionConfig, SessionContext

ctx = SessionContext(SessionConfig().with_target_partitions(2))
schema = pa.schema([('user_id', pa.string()), ('ts', pa.timestamp('ms')), ('seq', pa.int64()), ('price', pa.float64())])
ctx.register_json('clicks', sys.argv[1], schema=schema, file_extension='.json')
frame = ctx.sql("""
  SELECT user_id, date_bin(INTERVAL '10 seconds', ts, TIMESTAMP '1970-01-01 00:00:00') AS ws, COUNT(*) AS n, SUM(price) AS s
  FROM clicks GROUP BY 1, 2""")
print(sum(batch.num_rows for batch in frame.collect()), 'rows')
