"""--config: what a file says is what the command line would; the command line counts more."""

import pytest

from vtcore.cli import parser

FILE = """
port: 9000
served_model_name: [a, b]
api-key: [secret]
max_num_seqs: 4
enable_prefix_caching: false
strict: true
memory_limit: 2GiB
"""


def serve(tmp_path, text, *arguments):
    (tmp_path / "c.yaml").write_text(text)
    return parser().parse_args(["serve", "smollm2-135m", *(a.replace("FILE", str(tmp_path / "c.yaml")) for a in arguments)])


def test_a_file_sets_options(tmp_path):
    args = serve(tmp_path, FILE, "--config", "FILE")
    assert (args.model, args.port, args.served_model_name, args.api_key) == ("smollm2-135m", 9000, ["a", "b"], ["secret"])
    assert (args.max_num_seqs, args.enable_prefix_caching, args.strict, args.memory_limit) == (4, False, True, "2GiB")
    assert (args.host, args.capture) == (None, True)


@pytest.mark.parametrize("port", [7, 8000])  # the default, where it is said, counts more too
@pytest.mark.parametrize("line", ["--port PORT --config FILE", "--config FILE --port PORT", "--config=FILE --port=PORT"])
def test_the_command_line_counts_more(tmp_path, line, port):
    args = serve(tmp_path, FILE, *line.replace("PORT", str(port)).split())
    assert (args.model, args.port, args.max_num_seqs) == ("smollm2-135m", port, 4)


SWITCHES = """
strict: false
no_capture: false
enable_prefix_caching: true
async_scheduling: false
enable_server_dev_mode: false
"""


def test_a_switch_may_be_said_to_be_as_it_is_anyway(tmp_path):
    args = serve(tmp_path, SWITCHES, "--config", "FILE")
    assert (args.strict, args.capture, args.enable_prefix_caching) == (False, True, True)
    assert (args.async_scheduling, args.enable_server_dev_mode) == (False, False)


WRONG = {
    "port: high": "'high' is not a whole number from 1",
    "no_such_option: 1": "unrecognized arguments: --no-such-option=1",
    "no_such_option: false": "unrecognized arguments: --no-no-such-option",
    "max_num_seq: 4": "unrecognized arguments: --max-num-seq=4 (nearest: --max-num-seqs)",
    "port: false": "unrecognized arguments: --no-port",
    "port: 70000": "'70000' is over 65535, the highest port",
    "api_key: [null]": "api_key holds None; quote what is meant as a text",
    "served_model_name: [no]": "served_model_name holds False; quote",
    "served_model_name: [a, [b]]": "served_model_name holds ['b']; quote",
    "api_key: [{a: 1}]": "quote what is meant",
    "host:": "host has no value",
    "metrics_prefix: x": "invalid choice: 'x'",
    "- port": "must map names of options to values",
    "model: other": "MODEL stands on the command line",
    "config: other": "must map names",
    "1: 2": "must map names",
    "": "must map names",
    "port: [": "is no YAML",
    "!!python/object:os.system x": "is no YAML",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_named(tmp_path, capsys, text):
    with pytest.raises(SystemExit) as ended:
        serve(tmp_path, text, "--config", "FILE")
    assert ended.value.code == 2
    assert WRONG[text] in " ".join(capsys.readouterr().err.split())


def test_a_file_that_is_not_there(tmp_path, capsys):
    with pytest.raises(SystemExit):
        serve(tmp_path, "", "--config", str(tmp_path / "none"))
    assert "No such file" in capsys.readouterr().err
