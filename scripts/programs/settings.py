"""Writes testdata/settings.json: what huggingface_hub, boto3 and requests make of the user's settings.

Each case is an environment and the files of a home directory, "standard" for those at the top; @HOME@ stands for its
path. Run it by the Python of the environment "settings", which scripts/programs/setup makes.

Two kinds have no cases, because tensorfs is kinder: variables that are set and empty, which huggingface_hub takes for
the working directory and tensorfs for not set; and files that botocore refuses and other tools of AWS read, with
sections or keys twice or without a value.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

OUT = pathlib.Path(__file__).parents[2] / "testdata" / "settings.json"

HUGGING_FACE = """
import json, os
from huggingface_hub import constants, get_token
from huggingface_hub.utils._headers import get_token_to_send
print(json.dumps({"cache": constants.HF_HUB_CACHE, "token": get_token_to_send(None) or "", "offline": constants.HF_HUB_OFFLINE}))
"""

AWS = """
import json, boto3, botocore.exceptions
try:
    session = boto3.Session()
    client = session.client("s3")
except botocore.exceptions.BotoCoreError as e:
    print(json.dumps({"refused": type(e).__name__}))
else:
    keys = session.get_credentials()
    verify = client._endpoint.http_session._verify
    endpoint = client.meta.endpoint_url
    region = session.region_name or ""
    print(json.dumps({
        "endpoint": "" if ".amazonaws.com" in endpoint else endpoint, "region": region,
        "key": keys.access_key if keys else "", "ca": verify if isinstance(verify, str) else "",
    }))
"""

NETRC = """
import json, requests.utils
user = requests.utils.get_netrc_auth("https://files.example.org/x")
print(json.dumps({"user": user[0] if user else ""}))
"""

CONFIG = """[default]
region = eu-west-1
endpoint_url = https://default.example.org
[profile minio]
region = RegionOne
endpoint_url = https://minio.example.org:9000
aws_access_key_id = MINIO
aws_secret_access_key = secret
[profile "two words"]
endpoint_url = https://two.example.org
[profile services]
endpoint_url = https://all.example.org
services = mine
[profile other-services]
endpoint_url = https://all.example.org
services = others
[profile no-services]
services = missing
[profile ignoring]
endpoint_url = https://all.example.org
ignore_configured_endpoint_urls = true
[profile spaced]
region=  us-west-2
Endpoint_URL  : https://spaced.example.org
[profile bundled]
ca_bundle = ~/ca.pem
[services mine]
s3 =
  endpoint_url = https://s3.example.org
  addressing_style = path
dynamodb =
  endpoint_url = https://dynamodb.example.org
[services others]
dynamodb =
  endpoint_url = https://dynamodb.example.org
"""
KEYS = """[default]
aws_access_key_id = DEFAULT
aws_secret_access_key = secret
[minio]
aws_access_key_id = FROMKEYS
aws_secret_access_key = secret
region = from-keys
[keys-alone]
aws_access_key_id = ALONE
aws_secret_access_key = secret
"""
STANDARD = {".aws/config": CONFIG, ".aws/credentials": KEYS}

CASES = {
    "huggingface": (HUGGING_FACE, [
        ({}, {}),
        ({"HF_HOME": "@HOME@/hf"}, {}),
        ({"HF_HOME": "~/hf"}, {"hf/token": "hf_home"}),
        ({"HF_HOME": "$HOME/hf"}, {"hf/token": "hf_variable\n"}),
        ({"HF_HOME": "${HOME}/hf/"}, {}),
        ({"HF_HOME": "~"}, {"token": "hf_tilde"}),
        ({"HF_HOME": "~nobody-here/hf"}, {}),
        ({"HF_HOME": "$UNKNOWN/hf"}, {}),
        ({"HF_HOME": "~/$NAME", "NAME": "x"}, {"x/token": "hf_both"}),
        ({"HF_HOME": "/data/$A$B/${A}", "A": "1", "B": "$A"}, {}),
        ({"HF_HOME": "/data/a~b"}, {}),
        ({"HF_HOME": "relative"}, {}),
        ({"HF_HUB_CACHE": "~/cache"}, {}),
        ({"HF_HUB_CACHE": "~/cache", "HF_HOME": "~/hf"}, {"hf/token": "hf_kept"}),
        ({"HUGGINGFACE_HUB_CACHE": "@HOME@/old"}, {}),
        ({"HUGGINGFACE_HUB_CACHE": "~/old", "HF_HOME": "/hf"}, {}),
        ({"HUGGINGFACE_HUB_CACHE": "/old", "HF_HUB_CACHE": "/new"}, {}),
        ({"XDG_CACHE_HOME": "~"}, {"huggingface/token": "hf_xdg"}),
        ({"XDG_CACHE_HOME": "@HOME@/c"}, {"c/huggingface/token": "  hf_blanks \n\n"}),
        ({"HF_TOKEN": " hf_a\n"}, {}),
        ({"HF_TOKEN": "hf_a", "HUGGING_FACE_HUB_TOKEN": "hf_b"}, {}),
        ({"HUGGING_FACE_HUB_TOKEN": "hf_b"}, {".cache/huggingface/token": "hf_file"}),
        ({"HF_TOKEN": " "}, {".cache/huggingface/token": "hf_file"}),
        ({}, {".cache/huggingface/token": "hf_file\r\n"}),
        ({"HF_TOKEN_PATH": "~/my-token"}, {"my-token": "hf_named"}),
        ({"HF_TOKEN_PATH": "~/missing"}, {".cache/huggingface/token": "hf_file"}),
        ({"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, {".cache/huggingface/token": "hf_file"}),
        ({"HF_HUB_DISABLE_IMPLICIT_TOKEN": "yes", "HF_TOKEN": "hf_a"}, {}),
        ({"HF_HUB_DISABLE_IMPLICIT_TOKEN": "0"}, {".cache/huggingface/token": "hf_file"}),
        ({"HF_HUB_OFFLINE": "1"}, {}),
        ({"HF_HUB_OFFLINE": "on"}, {}),
        ({"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "1"}, {}),
        ({"TRANSFORMERS_OFFLINE": "TRUE"}, {}),
        ({"HF_HUB_OFFLINE": "2"}, {}),
        ({"HF_HOME": "~root/hf"}, {}),
        ({"HF_HOME": "$HOME"}, {"token": "hf_plain"}),
        ({"HF_HOME": "$HF_BASE", "HF_BASE": "~/b"}, {"b/token": "hf_indirect"}),
        ({"HF_HOME": "hf", "HF_HUB_CACHE": "./c/../d/"}, {"hf/token": "hf_relative"}),
        ({"HF_HOME": "/a//b/../c/./"}, {}),
        ({"HF_HOME": "$/a$-b${}c$"}, {}),
        ({"HF_HOME": "/a/${HOME/b"}, {}),
        ({"HF_HOME": "/a/$\u00e9t\u00e9/b", "\u00e9t\u00e9": "x"}, {}),
        ({"HF_HOME": " ~/hf"}, {}),
        ({"HF_HOME": "~/hf "}, {}),
        ({"HF_HOME": '"/quoted"'}, {}),
        ({"HF_HOME": "/a/$EMPTY/b", "EMPTY": ""}, {}),
        ({"HF_HOME": " "}, {}),
        ({"HF_HUB_CACHE": "/a/$$HOME"}, {}),
        ({"XDG_CACHE_HOME": "$HOME/c"}, {"c/huggingface/token": "hf_c"}),
        ({"XDG_CACHE_HOME": "c"}, {"c/huggingface/token": "hf_c"}),
        ({"XDG_CACHE_HOME": "/c/"}, {}),
        ({"HF_TOKEN_PATH": "$HOME/t"}, {"t": "hf_t"}),
        ({"HF_TOKEN_PATH": "t"}, {"t": "hf_t"}),
        ({"HF_TOKEN_PATH": "~/t", "HF_HOME": "~/hf"}, {"hf/token": "hf_hf"}),
        ({"HF_STORED_TOKENS_PATH": "~/stored"}, {"stored": "[a]\nhf_token = hf_stored\n"}),
        ({}, {".cache/huggingface/stored_tokens": "[a]\nhf_token = hf_stored\n"}),
        ({}, {".cache/huggingface/token": ""}),
        ({}, {".huggingface/token": "hf_oldest"}),
        ({"HF_TOKEN": "", "HUGGING_FACE_HUB_TOKEN": "hf_b"}, {}),
        ({"HF_TOKEN": " ", "HUGGING_FACE_HUB_TOKEN": "hf_b"}, {}),
        ({"HF_TOKEN": "hf_a\r\nhf_b"}, {}),
        ({"HUGGINGFACE_TOKEN": "hf_c", "HF_API_TOKEN": "hf_d", "HUGGINGFACE_HUB_TOKEN": "hf_e"}, {}),
        ({"HF_HUB_DISABLE_IMPLICIT_TOKEN": "true", "HF_TOKEN_PATH": "~/t"}, {"t": "hf_t"}),
        ({"HF_HUB_DISABLE_IMPLICIT_TOKEN": "Yes "}, {".cache/huggingface/token": "hf_file"}),
        ({"HF_HUB_OFFLINE": ""}, {}),
        ({"HF_HUB_OFFLINE": "", "TRANSFORMERS_OFFLINE": "1"}, {}),
        ({"HF_HUB_OFFLINE": "true "}, {}),
        ({"HF_DATASETS_OFFLINE": "1"}, {}),
        ({"TRANSFORMERS_OFFLINE": "0"}, {}),
        ({"TRANSFORMERS_CACHE": "/old"}, {}),
        ({"PYTORCH_TRANSFORMERS_CACHE": "/older"}, {}),
        ({"HF_HUB_CACHE": "hub\\x"}, {}),
    ]),
    "aws": (AWS, [
        ({}, {}),
        ({}, "standard"),
        ({"AWS_PROFILE": "minio"}, "standard"),
        ({"AWS_DEFAULT_PROFILE": "minio"}, "standard"),
        ({"AWS_DEFAULT_PROFILE": "minio", "AWS_PROFILE": "services"}, "standard"),
        ({"AWS_PROFILE": "two words"}, "standard"),
        ({"AWS_PROFILE": "services"}, "standard"),
        ({"AWS_PROFILE": "other-services"}, "standard"),
        ({"AWS_PROFILE": "no-services"}, "standard"),
        ({"AWS_PROFILE": "ignoring"}, "standard"),
        ({"AWS_PROFILE": "spaced"}, "standard"),
        ({"AWS_PROFILE": "keys-alone"}, "standard"),
        ({"AWS_PROFILE": "missing"}, "standard"),
        ({"AWS_PROFILE": "services", "AWS_ENDPOINT_URL": "https://env.example.org"}, "standard"),
        ({"AWS_PROFILE": "services", "AWS_ENDPOINT_URL": "https://env.example.org", "AWS_ENDPOINT_URL_S3": "https://env-s3.example.org"}, "standard"),
        ({"AWS_PROFILE": "minio", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, "standard"),
        ({"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true", "AWS_ENDPOINT_URL": "https://env.example.org"}, "standard"),
        ({"AWS_PROFILE": "minio", "AWS_DEFAULT_REGION": "GRA"}, "standard"),
        ({"AWS_CONFIG_FILE": "~/elsewhere"}, {"elsewhere": CONFIG}),
        ({"AWS_CONFIG_FILE": "$HOME/elsewhere", "AWS_PROFILE": "minio"}, {"elsewhere": CONFIG}),
        ({"AWS_SHARED_CREDENTIALS_FILE": "~/keys"}, {"keys": KEYS}),
        ({"AWS_CA_BUNDLE": "@HOME@/ca.pem"}, {}),
        ({"AWS_PROFILE": "bundled"}, "standard"),
        ({}, {".aws/config": "[default]\nregion = eu-west-1 # here\n"}),
        ({}, {".aws/config": "; a comment\n[default]\n# another\nregion=eu-west-1\n"}),
        ({"AWS_PROFILE": "minio"}, {".aws/config": "[minio]\nregion = eu-west-1\n"}),
        ({}, {".aws/config": "no section\n"}),
        ({}, {".aws/config": "[default]\r\nregion = eu-west-1\r\n"}),
        ({}, {".aws/config": "[default]\nregion\n"}),
        ({}, {".aws/config": "[default]\nREGION = eu-west-1\n"}),
        ({}, {".aws/config": "[default]\n region = eu-west-1\n"}),
        ({}, {".aws/config": "[default]\nregion = \"eu-west-1\"\n"}),
        ({}, {".aws/config": "[default]\nregion = eu-west-1 ; here\n"}),
        ({}, {".aws/config": "[default]\nregion = eu-west-1;here\n"}),
        ({}, {".aws/config": "[DEFAULT]\nregion = eu-west-1\n"}),
        ({}, {".aws/config": "[ default ]\nregion = eu-west-1\n"}),
        ({}, {".aws/config": "[profile default]\nregion = eu-west-1\n"}),
        ({}, {".aws/config": "[default]\nregion = eu-west-1\n[profile default]\nregion = eu-west-2\n"}),
        ({}, {".aws/config": "[profile default]\nregion = eu-west-2\n[default]\nregion = eu-west-1\nendpoint_url = https://d.example.org\n"}),
        ({}, {".aws/config": "[default]\nendpoint_url = https://a.example.org/path/\n"}),
        ({}, {".aws/config": "[default]\nendpoint_url = https://a.example.org/?q=%20%41\n"}),
        ({}, {".aws/config": "[default]\nregion = %(x)s\n"}),
        ({}, {".aws/config": "[default]\nca_bundle = $HOME/ca.pem\n"}),
        ({}, {".aws/config": "[default]\nca_bundle = ca.pem\n"}),
        ({"AWS_CA_BUNDLE": "~/ca.pem"}, {}),
        ({"REQUESTS_CA_BUNDLE": "/ca.pem"}, {}),
        ({"AWS_PROFILE": "a"}, {".aws/config": "[profile   a]\nregion = eu-west-1\n"}),
        ({"AWS_PROFILE": "a"}, {".aws/config": "[profile\ta]\nregion = eu-west-1\n"}),
        ({"AWS_PROFILE": "a"}, {".aws/config": "[profile 'a']\nregion = eu-west-1\n"}),
        ({"AWS_PROFILE": "a"}, {".aws/config": "[profilea]\nregion = eu-west-1\n"}),
        ({"AWS_PROFILE": "a b"}, {".aws/config": "[profile a b]\nregion = eu-west-1\n"}),
        ({"AWS_PROFILE": "a"}, {".aws/config": "[profile a # x]\nregion = eu-west-1\n"}),
        ({"AWS_PROFILE": "A"}, {".aws/config": "[profile a]\nregion = eu-west-1\n"}),
        ({"AWS_PROFILE": "a#b"}, {".aws/config": "[profile \"a#b\"]\nregion = eu-west-1\n"}),
        ({"AWS_PROFILE": "default"}, {}),
        ({"AWS_PROFILE": "default"}, "standard"),
        ({"AWS_PROFILE": "", "AWS_DEFAULT_PROFILE": "minio"}, "standard"),
        ({"AWS_PROFILE": " minio"}, "standard"),
        ({"AWS_PROFILE": "services", "AWS_ENDPOINT_URL": ""}, "standard"),
        ({"AWS_PROFILE": "services", "AWS_ENDPOINT_URL_S3": ""}, "standard"),
        ({"AWS_PROFILE": "services", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "false"}, "standard"),
        ({"AWS_PROFILE": "services", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "1"}, "standard"),
        ({"AWS_PROFILE": "services", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "True"}, "standard"),
        ({"AWS_PROFILE": "ignoring", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "false"}, "standard"),
        ({"AWS_PROFILE": "ignoring", "AWS_ENDPOINT_URL": "https://env.example.org"}, "standard"),
        ({"AWS_PROFILE": "no-services", "AWS_ENDPOINT_URL": "https://env.example.org"}, "standard"),
        ({"AWS_PROFILE": "no-services", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, "standard"),
        ({}, {".aws/config": "[default]\ns3 =\n  endpoint_url = https://nested.example.org\n  addressing_style = path\n"}),
        ({}, {".aws/config": "[default]\nservices = mine\n[services mine]\ns3 =\n    endpoint_url=https://s3.example.org\n\n"}),
        ({}, {".aws/config": "[default]\nservices = mine\n[services mine]\nS3 =\n  ENDPOINT_URL = https://s3.example.org\n"}),
        ({}, {".aws/config": "[default]\nservices = mine\n[services mine]\ns3 =\n\tendpoint_url = https://s3.example.org\n"}),
        ({}, {".aws/config": "[default]\nservices = mine\n[services mine]\ns3 =\n  # a comment\n  endpoint_url = https://s3.example.org\n"}),
        ({}, {".aws/config": "[default]\nservices = mine\n[services mine]\ns3 =\n  endpoint_url\n"}),
        ({}, {".aws/config": "[default]\nservices = mine\n[services mine]\ns3 = https://s3.example.org\n"}),
        ({}, {".aws/credentials": "[default]\nservices = mine\n", ".aws/config": "[services mine]\ns3 =\n  endpoint_url = https://s3.example.org\n"}),
        ({}, {".aws/credentials": "[default]\nendpoint_url = https://keys.example.org\n"}),
        ({}, {".aws/credentials": "[default]\nendpoint_url = https://keys.example.org\n", ".aws/config": "[default]\nendpoint_url = https://config.example.org\n"}),
        ({}, {".aws/credentials": "[profile default]\naws_access_key_id = A\naws_secret_access_key = s\n"}),
        ({}, {".aws/credentials": "[default]\naws_access_key_id = A\naws_secret_access_key = s # x\n"}),
        ({}, {".aws/credentials": "[default]\naws_access_key_id=A\naws_secret_access_key=a=b/c+d==\n"}),
        ({"AWS_CONFIG_FILE": "relative"}, {"relative": CONFIG}),
        ({"AWS_CONFIG_FILE": "/missing"}, "standard"),
        ({"AWS_CONFIG_FILE": "~root-is-not-here/x"}, {}),
        ({"AWS_USE_FIPS_ENDPOINT": "true", "AWS_DEFAULT_REGION": "us-east-1"}, {}),
        ({"AWS_USE_DUALSTACK_ENDPOINT": "true", "AWS_DEFAULT_REGION": "us-east-1"}, {}),
    ]),
    "netrc": (NETRC, [
        ({}, {}),
        ({}, {".netrc": "machine files.example.org login home password p\n"}),
        ({"NETRC": "@HOME@/mine"}, {"mine": "machine files.example.org login named password p\n"}),
        ({"NETRC": "~/mine"}, {"mine": "machine files.example.org login tilde password p\n"}),
        ({"NETRC": "mine"}, {"mine": "machine files.example.org login relative password p\n"}),
        ({"NETRC": "$HOME/mine"}, {"mine": "machine files.example.org login variable password p\n"}),
        ({"NETRC": "~/missing"}, {".netrc": "machine files.example.org login home password p\n"}),
        ({}, {"_netrc": "machine files.example.org login underscore password p\n"}),
        ({}, {".netrc": "machine files.example.org login home password p\n", "_netrc": "machine files.example.org login underscore password p\n"}),
    ]),
}


def answers() -> str:
    """What the programs answer, as the text of the file."""
    written = {}
    for program, (probe, cases) in CASES.items():
        rows = written[program] = []
        for env, files in cases:
            home = os.path.realpath(tempfile.mkdtemp())
            for name, text in (STANDARD if files == "standard" else files).items():
                path = pathlib.Path(home, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                path.chmod(0o600)
            if program == "aws":  # a role of the machine is not asked for
                env = {**env, "AWS_EC2_METADATA_DISABLED": "true"}
            given = {name: value.replace("@HOME@", home) for name, value in env.items()}
            run = subprocess.run([sys.executable, "-c", probe], env={"PATH": os.environ["PATH"], "HOME": home, **given}, cwd=home, capture_output=True, text=True)
            shutil.rmtree(home)
            if run.returncode:
                rows.append({"env": env, "files": files, "want": {"refused": run.stderr.strip().splitlines()[-1].split(":")[0]}})
                continue
            want = json.loads(run.stdout.strip().splitlines()[-1].replace(home, "@HOME@"))
            rows.append({"env": env, "files": files, "want": want})
    lines = [' "standard": ' + json.dumps(STANDARD)]
    lines += [f' "{program}": [\n  ' + ",\n  ".join(json.dumps(row) for row in rows) + "\n ]" for program, rows in written.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    OUT.write_text(answers())
