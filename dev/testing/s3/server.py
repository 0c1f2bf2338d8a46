"""An S3 server for tests: moto's, in memory, which checks keys and signatures and conditions of writes.

Prints `{"port": ..., "access": ..., "secret": ...}`, then answers each line of standard input with a line of JSON:
`make BUCKET`, `list BUCKET` (keys), `delete BUCKET KEY`. Ends with its standard input.
"""

import json
import logging
import os
import sys

# The three calls that make a user need no key; all others do.
os.environ['INITIAL_NO_AUTH_ACTION_COUNT'] = '3'
logging.getLogger('werkzeug').setLevel(logging.ERROR)

import boto3  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

EVERYTHING = {'Version': '2012-10-17', 'Statement': [{'Effect': 'Allow', 'Action': 's3:*', 'Resource': '*'}]}


def client(service, port, access, secret):
    return boto3.client(service, endpoint_url=f'http://127.0.0.1:{port}', region_name='us-east-1',
                        aws_access_key_id=access, aws_secret_access_key=secret)


def answer(s3, verb, bucket, key):
    if verb == 'make':
        s3.create_bucket(Bucket=bucket)
    elif verb == 'delete':
        s3.delete_object(Bucket=bucket, Key=key)
    elif verb == 'list':
        pages = s3.get_paginator('list_objects_v2').paginate(Bucket=bucket)
        return [found['Key'] for page in pages for found in page.get('Contents', [])]
    else:
        sys.exit(f'no such command: {verb}')
    return []


def main():
    server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    iam = client('iam', port, 'nobody', 'nothing')
    iam.create_user(UserName='tester')
    made = iam.create_access_key(UserName='tester')['AccessKey']
    iam.put_user_policy(UserName='tester', PolicyName='everything', PolicyDocument=json.dumps(EVERYTHING))
    access, secret = made['AccessKeyId'], made['SecretAccessKey']
    s3 = client('s3', port, access, secret)
    print(json.dumps({'port': port, 'access': access, 'secret': secret}), flush=True)
    for line in sys.stdin:
        verb, bucket, key = (line.split() + [''])[:3]
        print(json.dumps(answer(s3, verb, bucket, key)), flush=True)


main()
