import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from vtcore.catalogue import resolve
from vtcore.errors import ArgumentError, ModelNotFoundError


def test_a_checkpoint_is_taken_whole(tmp_path, monkeypatch):
    (tmp_path / "model.safetensors").write_bytes(b"")
    asked = []
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda repo, **rest: (asked.append(repo), str(tmp_path))[1])
    assert resolve("hf:org/some.repo-1") == tmp_path
    assert asked == ["org/some.repo-1"]


def test_a_repository_of_other_files_says_how_to_name_one(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda repo, **rest: str(tmp_path))
    with pytest.raises(ModelNotFoundError, match=r"'org/repo' has no \*\.safetensors .* hf:org/repo:file\.gguf"):
        resolve("hf:org/repo")


def test_all_parts_of_a_split_file_are_fetched(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda repo, file: (asked.append(file), str(tmp_path / file))[1])
    assert resolve("hf:org/repo:q/m-00002-of-00003.gguf") == tmp_path / "q/m-00001-of-00003.gguf"
    assert asked == [f"q/m-0000{i}-of-00003.gguf" for i in (1, 2, 3)]


def test_one_file(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda repo, file: str(tmp_path / file))
    assert resolve("hf:org/repo:m.gguf") == tmp_path / "m.gguf"


@pytest.mark.parametrize(
    "model", ["hf:", "hf:repo", "hf:org/repo:", "hf:org/repo/more", "hf:org/repo:../x.gguf", "hf:org/repo:a:b", "hf:o r/r"]
)
def test_other_spellings_are_refused(model):
    with pytest.raises(ArgumentError, match="is not hf:org/repo or hf:org/repo:file"):
        resolve(model)


def test_a_file_of_another_kind_is_refused():
    with pytest.raises(ArgumentError, match=r"not a \.gguf file; a safetensors checkpoint is taken whole, as hf:org/repo"):
        resolve("hf:org/repo:model.safetensors")


def test_the_hubs_own_words_are_in_the_error(monkeypatch):
    def gone(repo, **rest):
        raise LocalEntryNotFoundError("nothing in the cache\nand a long explanation")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", gone)
    with pytest.raises(ModelNotFoundError, match=r"'hf:org/repo' can't be fetched from the hub: nothing in the cache$"):
        resolve("hf:org/repo")
