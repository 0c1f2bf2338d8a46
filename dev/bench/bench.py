#!/usr/bin/env python3
"""Clicks: 10 s tumble by 1,000 users, count and sum, over generated JSON lines. Tidegate against Flink and DataFusion.

CPU time of the whole process (user + system, as the kernel counted it) is what is compared: wall times drift on a
shared machine. Every contender runs on the same file in the same run; ratios go to docs/benchmarks.md.
"""
import argparse, json, os, random, resource, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))


def generate(path, rows, late_share, seed=7):
    """Clicks 2 ms apart; `late_share` of them up to 8 s (2 %) or 5-15 s (20 %) behind."""
    if os.path.exists(path):
        return
    rnd = random.Random(seed)
    base = 1790848800000  # 2026-10-01 10:00:00
    far = late_share > 0.1
    days = {}
    with open(path + '.part', 'w') as f:
        out = []
        for i in range(rows):
            ms = base + i * 2
            if rnd.random() < late_share:
                ms -= rnd.randrange(5000, 15000) if far else rnd.randrange(0, 8000)
            day, rest = divmod(ms, 86400000)
            date = days.get(day)
            if date is None:
                date = days[day] = time.strftime('%Y-%m-%d', time.gmtime(day * 86400))
            s, milli = divmod(rest, 1000)
            out.append('{"user_id":"u%d","ts":"%s %02d:%02d:%02d.%03d","seq":%d,"price":%d.%02d}\n' % (
                rnd.randrange(1000), date, s // 3600, s // 60 % 60, s % 60, milli, i, rnd.randrange(100), rnd.randrange(100)))
            if len(out) == 10000:
                f.write(''.join(out))
                out.clear()
        f.write(''.join(out))
    os.rename(path + '.part', path)


def sql(path, sink='blackhole', extra=''):
    return f"""{extra}
CREATE TABLE clicks (user_id STRING, ts TIMESTAMP(3), seq BIGINT, price DOUBLE,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');
CREATE TABLE out_w (user_id STRING, ws TIMESTAMP(3), n BIGINT, s DOUBLE) WITH ('connector' = '{sink}');
INSERT INTO out_w
SELECT user_id, window_start, COUNT(*), SUM(price)
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY user_id, window_start, window_end;
"""


def measure(name, command, runs):
    """Least CPU seconds over the runs, with that run's wall seconds and peak memory in MB."""
    best = None
    for _ in range(runs):
        begin = time.time()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        err = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.time() - begin
        if status != 0:
            sys.exit(f'{name} failed:\n{err.decode(errors="replace")[-3000:]}')
        figure = (usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)
        best = min(best, figure) if best else figure
    print(f'{name:34} CPU {best[0]:7.2f} s   wall {best[1]:6.2f} s   peak {best[2]:7.0f} MB', flush=True)
    return best


def write(path, text):
    with open(path, 'w') as f:
        f.write(text)
    return path


OPENS = [f'--add-exports=java.base/{p}=ALL-UNNAMED' for p in ('sun.net.util',)] + ['--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED'] + [
    f'--add-opens=java.base/{p}=ALL-UNNAMED' for p in (
        'java.lang', 'java.net', 'java.io', 'java.nio', 'sun.nio.ch', 'java.lang.reflect', 'java.text', 'java.time', 'java.util',
        'java.util.concurrent', 'java.util.concurrent.atomic', 'java.util.concurrent.locks')]


def flink_command(folder, script):
    import glob
    jars = sorted(glob.glob(os.path.join(folder, 'venv/lib/python*/site-packages/pyflink/lib/*.jar')))
    path = ':'.join(jars)
    classes = os.path.join(folder, 'classes')
    os.makedirs(classes, exist_ok=True)
    subprocess.check_call(['javac', '-nowarn', '-cp', path, '-d', classes, os.path.join(HERE, 'flink/RunScript.java')])
    return ['java', '-Xmx3g', *OPENS, '-cp', classes + ':' + path, 'RunScript', script, 'parallelism.default=2']


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--tidegate', required=True, help='the release binary')
    parser.add_argument('--folder', required=True, help='work folder: generated data, Python environment')
    parser.add_argument('--rows', type=int, default=5_000_000)
    parser.add_argument('--runs', type=int, default=3)
    parser.add_argument('--only', default='', help='comma list: tidegate, datafusion, flink, late, batch, start, generate, kafka')
    parser.add_argument('--kafka', help='bootstrap servers of a broker whose topic `clicks` holds the data')
    parser.add_argument('--consumer', help='the program of the bare consume loop')
    args = parser.parse_args()
    wanted = set(filter(None, args.only.split(',')))
    want = lambda name: name in wanted or not wanted and name != 'kafka'
    data = os.path.join(args.folder, f'clicks-{args.rows}.json')
    late = os.path.join(args.folder, f'clicks-late-{args.rows}.json')
    generate(data, args.rows, 0.02)
    script = write(os.path.join(args.folder, 'clicks.sql'), sql(data))
    figures = {}
    run = lambda name, command, runs=args.runs: figures.__setitem__(name, measure(name, command, runs))
    tide = lambda file, *more: [args.tidegate, 'run', '--quiet', file, *more]
    if want('tidegate'):
        run('tidegate', tide(script))
        run('tidegate -p 2', tide(script, '-p', '2'))
    if want('datafusion'):
        run('datafusion', [os.path.join(args.folder, 'venv/bin/python'), os.path.join(HERE, 'datafusion_clicks.py'), data])
    if want('flink'):
        run('flink', flink_command(args.folder, script), 1)
    if want('late'):
        generate(late, args.rows, 0.2)
        run('tidegate, 20 % late', tide(write(os.path.join(args.folder, 'late.sql'), sql(late))))
    if want('batch'):
        for rows in (1024, 8192, 65536):
            run(f'tidegate, {rows} rows a batch', tide(script, '-D', f'tidegate.source.batch-rows={rows}'))
    if want('kafka'):
        from_kafka = sql(data).replace(f"'connector' = 'filesystem', 'path' = '{data}'", "'connector' = 'kafka', 'topic' = 'clicks', "
            f"'properties.bootstrap.servers' = '{args.kafka}', 'properties.group.id' = 'bench', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'")
        run('bare consume loop', [args.consumer, 'consume', args.kafka, 'clicks'])
        run('tidegate from Kafka', tide(write(os.path.join(args.folder, 'kafka.sql'), from_kafka)))
    if want('start'):
        trivial = write(os.path.join(args.folder, 'one.sql'), 'SELECT 1;\n')
        run('tidegate, one-row script', tide(trivial), 10)
    print(json.dumps({k: {'cpu_s': round(v[0], 3), 'wall_s': round(v[1], 3), 'peak_mb': round(v[2])} for k, v in figures.items()}))


if __name__ == '__main__':
    main()
