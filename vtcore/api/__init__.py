"""OpenAI's requests and answers, as plain data: what the server and `vtcore run-batch` share. Needs the extra `serve`."""
