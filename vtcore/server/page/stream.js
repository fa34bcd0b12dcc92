// What the server says: plain answers, and streams of server-sent events.

let key = sessionStorage.getItem("key") ?? "";

export const setKey = (text) => {
  key = text;
  sessionStorage.setItem("key", text);
};

export const getKey = () => key;

// An error that people are to read: what the server said, or that it said nothing.
const refused = async (answer) => {
  const body = await answer.json().catch(() => null);
  const retry = answer.headers.get("retry-after");
  const why = body?.error?.message ?? `the server answered ${answer.status} ${answer.statusText}`;
  const error = new Error(retry ? `${why} (try again in ${retry} seconds)` : why);
  error.status = answer.status;
  return error;
};

const ask = async (path, options) => {
  const headers = { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Error("the server can’t be reached");
  }
  if (!answer.ok) throw await refused(answer);
  return answer;
};

export const get = async (path) => (await ask(path, {})).json();

// The frames of an answer, as data. Throws what a frame tells as an error, and where the stream ends before its end.
export async function* frames(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const answer = await ask(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Error("the answer broke off: the server closed the connection");
      rest += value;
      const events = rest.split("\n\n");
      rest = events.pop();
      for (const event of events) {
        const data = event.replace(/^data: ?/, "");
        if (data === "[DONE]") return;
        const frame = JSON.parse(data);
        if (frame.error) throw new Error(frame.error.message);
        yield frame;
      }
    }
  } catch (error) {
    if (error.name === "TypeError") throw new Error("the answer broke off: the server can’t be reached");
    throw error;
  } finally {
    reader.cancel().catch(() => {});
  }
}
