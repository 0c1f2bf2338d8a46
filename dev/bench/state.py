#!/usr/bin/env python3
"""Keyed state of a given size under a memory budget, in memory (hashmap) and on disk.

One job: every key once (the state grows to its size), then rows at random keys. A key's state is a count,
a sum and a string of 64 characters, about 120 bytes in memory. Checkpoints are taken all along into a local folder.

Prints for each size and backend: rows a second while growing and while updating, CPU a row, peak memory, the checkpoints
of that time. Then a savepoint, which holds the whole state. A second process goes on from it with few rows a second:
the time from its start to its first rows, a checkpoint after 1 % of the keys has changed, and one right after that one.
"""
import argparse, json, os, re, shutil, signal, socket, subprocess, sys, threading, time, urllib.error, urllib.request

KEY_BYTES = 120


def script(folder, backend, keys, rows, budget, interval, speed):
    return f"""
SET 'state.backend.type' = '{backend}';
SET 'taskmanager.memory.managed.size' = '{budget}mb';
SET 'execution.checkpointing.interval' = '{interval}';
SET 'execution.checkpointing.dir' = '{folder}/checkpoints';
SET 'execution.checkpointing.externalized-checkpoint-retention' = 'RETAIN_ON_CANCELLATION';
SET 'io.tmp.dirs' = '{folder}/tmp';
CREATE TABLE numbers (
  n BIGINT, s STRING, v INT,
  id AS CASE WHEN n <= {keys} THEN n ELSE MOD(n * 2654435761, {keys}) + 1 END
) WITH ('connector' = 'datagen', 'rows-per-second' = '{speed}',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{rows}', 'fields.s.length' = '64');
CREATE TABLE totals (id BIGINT, n BIGINT, s BIGINT, m STRING) WITH ('connector' = 'blackhole');
INSERT INTO totals SELECT id, COUNT(*), SUM(v), MAX(s) FROM numbers GROUP BY id;
"""


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def ask(port, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f'http://127.0.0.1:{port}{path}', data, {'Content-Type': 'application/json'})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        sys.exit(f'{path}: {error.read().decode()}')
    except OSError:
        return None


def get(port, path):
    return ask(port, path)


class Run:
    """A process and what its REST API says while it runs."""

    def __init__(self, tidegate, sql, more=()):
        self.port = free_port()
        self.begin = time.time()
        command = [tidegate, 'run', '--rest-port', str(self.port), *more, sql]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.err = []
        self.reader = threading.Thread(target=lambda: self.err.extend(self.process.stderr), daemon=True)
        self.reader.start()
        self.job = None

    def rows(self):
        """Rows that the aggregate has read."""
        if self.job is None:
            jobs = get(self.port, '/jobs') or {'jobs': []}
            if not jobs['jobs']:
                return 0
            self.job = jobs['jobs'][0]['id']
        job = get(self.port, f'/jobs/{self.job}')
        if not job:
            return None
        return max(v['metrics']['read-records'] for v in job['vertices'])

    def checkpoints(self):
        """Those that are complete, the newest first."""
        history = (get(self.port, f'/jobs/{self.job}/checkpoints') or {}).get('history', [])
        return [c for c in history if c['status'] == 'COMPLETED']

    def operation(self, kind, body):
        """Triggers something and waits for it; gives the seconds it took and what came of it."""
        begin = time.time()
        trigger = ask(self.port, f'/jobs/{self.job}/{kind}', body)['request-id']
        path = 'savepoints' if kind == 'stop' else kind
        while True:
            answer = get(self.port, f'/jobs/{self.job}/{path}/{trigger}')
            if answer and answer['status']['id'] == 'COMPLETED':
                return time.time() - begin, answer['operation']
            time.sleep(0.02)

    def checkpoint(self):
        """Takes a checkpoint and gives what is known of it."""
        _, done = self.operation('checkpoints', {})
        if 'checkpointId' not in done:
            sys.exit(f'the checkpoint failed: {done}')
        return next(c for c in self.checkpoints() if c['id'] == done['checkpointId'])

    def rss_mb(self):
        try:
            with open(f'/proc/{self.process.pid}/status') as f:
                return int(re.search(r'VmHWM:\s+(\d+)', f.read()).group(1)) / 1024
        except (OSError, AttributeError):
            return 0

    def cpu(self):
        with open(f'/proc/{self.process.pid}/stat') as f:
            fields = f.read().rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


def wait_for_rows(run, wanted, memory):
    while True:
        rows = run.rows()
        memory[0] = max(memory[0], run.rss_mb())
        if run.process.poll() is not None:
            sys.exit('the job ended early:\n' + b''.join(run.err).decode(errors='replace')[-2000:])
        if rows is not None and rows >= wanted:
            return rows
        time.sleep(0.2)


def folder_mb(folder):
    sizes = [os.path.getsize(f'{root}/{file}') for root, _, files in os.walk(folder) for file in files]
    return sum(sizes) / 1e6


def told(checkpoint):
    return (f'{checkpoint["end_to_end_duration"]} ms, state {checkpoint["state_size"] / 1e6:.0f} MB, '
            f'written {checkpoint.get("checkpointed_size", 0) / 1e6:.1f} MB')


def one(args, size_mb, backend):
    folder = f'{args.folder}/{backend}-{size_mb}'
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(f'{folder}/tmp')
    keys = size_mb * 1_000_000 // KEY_BYTES
    updates = args.updates
    # More rows than are waited for, so that the job is alive when it is stopped.
    rows = keys + updates * 50
    sql = f'{folder}/job.sql'

    def write(interval, speed):
        with open(sql, 'w') as f:
            f.write(script(folder, backend, keys, rows, args.budget, interval, speed))

    write(args.interval, 100_000_000)
    run, memory = Run(args.tidegate, sql), [0]
    wait_for_rows(run, 1, memory)
    grown = wait_for_rows(run, keys, memory)
    grow_s, grow_cpu = time.time() - run.begin, run.cpu()
    begin = time.time()
    updated = wait_for_rows(run, keys + updates, memory) - grown
    update_s, update_cpu = time.time() - begin, run.cpu() - grow_cpu
    print(f'{size_mb:6} MB {backend:8} grow {grown / grow_s / 1000:7.0f} k/s {grow_cpu / grown * 1e6:6.2f} us/row   '
          f'update {updated / update_s / 1000:7.0f} k/s {update_cpu / updated * 1e6:6.2f} us/row   peak {memory[0]:6.0f} MB', flush=True)
    for c in run.checkpoints()[:4]:
        print(f'         checkpoint {c["id"]}: {told(c)}', flush=True)
    took, done = run.operation('stop', {'targetDirectory': f'{folder}/savepoints'})
    run.process.wait()
    if 'location' not in done:
        sys.exit(f'the savepoint failed: {done}')
    savepoint = done['location'].removeprefix('file:')
    print(f'         savepoint: {took:.1f} s, {folder_mb(savepoint):.0f} MB', flush=True)

    # 1 % of the keys in five seconds.
    changed = max(keys // 100, 1000)
    write('1 h', changed // 5)
    memory = [0]
    again = Run(args.tidegate, sql, ['-s', savepoint])
    begun = wait_for_rows(again, 1, memory)
    print(f'         first rows {time.time() - again.begin:.2f} s after the start of the restored process, '
          f'{again.rss_mb():.0f} MB by then', flush=True)
    print(f'         checkpoint after the restore: {told(again.checkpoint())}', flush=True)
    wait_for_rows(again, begun + changed, memory)
    print(f'         checkpoint after 1 %: {told(again.checkpoint())}', flush=True)
    print(f'         checkpoint right after it: {told(again.checkpoint())}', flush=True)
    again.stop()
    if not args.keep:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--tidegate', required=True, help='the binary')
    parser.add_argument('--folder', required=True, help='working folder, on the disk to be measured')
    parser.add_argument('--sizes', default='100,1000', help='MB of state')
    parser.add_argument('--backends', default='hashmap,disk')
    parser.add_argument('--budget', type=int, default=512, help='MB for state')
    parser.add_argument('--updates', type=int, default=10_000_000, help='random updates')
    parser.add_argument('--interval', default='10 s', help='of checkpoints')
    parser.add_argument('--keep', action='store_true', help='keep checkpoints')
    args = parser.parse_args()
    for size in args.sizes.split(','):
        for backend in args.backends.split(','):
            one(args, int(size), backend)


main()
