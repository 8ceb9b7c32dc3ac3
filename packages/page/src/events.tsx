import { useEffect, useState } from "preact/hooks";
import { ask } from "./ask.js";
import { useStore } from "./hooks.js";
import { Thing, Told, withLabels } from "./lists.js";
import type { EventEntry, EventsAnswer } from "./rows.js";
import { whenText } from "./text.js";

/** Shows events, newest first. */
export function EventList({ entries }: { entries: readonly EventEntry[] }) {
  return (
    <ol class="timeline">
      {entries.map((entry) => (
        <li key={entry.id} class={entry.isFailure ? "failure" : ""}>
          <time dateTime={new Date(entry.timeMs).toISOString()} title={new Date(entry.timeMs).toLocaleString()}>
            {whenText(entry.timeMs)}
          </time>
          <div>
            <strong>{withLabels(entry.what)}</strong>{" "}
            {[...Map.groupBy(entry.things, ({ kind }) => kind)].map(([kind, things]) => (
              <span key={kind} class="about">
                <span class="soft">{kind}</span>{" "}
                {things.map(({ name }) => (
                  <span key={name} class="one">
                    <Thing kind={kind} name={name} />
                  </span>
                ))}{" "}
              </span>
            ))}
            <span class="soft">{entry.who}</span>
            {entry.isFailure && <span class="failed"> failed</span>}
            {entry.message !== "" && (
              <p>
                <Told text={entry.message} />
              </p>
            )}
          </div>
        </li>
      ))}
    </ol>
  );
}

/** Shows the sources whose events are missing. */
export function MissingEvents({ missing }: { missing: readonly string[] }) {
  return (
    <>
      {missing.map((each) => (
        <p key={each} class="none">
          not all of it is known: {each}
        </p>
      ))}
    </>
  );
}

const TEXTS = [
  ["thing", "About", "name or id"],
  ["user", "By", "operator alice"],
  ["action", "Action", "PublishDisk"],
  ["answer", "Result", "OK, NOT_FOUND"],
] as const;
const TIMES = [
  ["after", "From"],
  ["before", "Until"],
] as const;

/** Shows the events that match the filters of the page's URL. */
export function Events({ query }: { query: string }) {
  const { pages, failure, isAsking, load } = useEvents(query);
  const { isLive } = useStore();
  useEffect(() => {
    if (isLive && failure !== "" && pages.length === 0) load();
  }, [isLive]);
  const filters = new URLSearchParams(query);
  const show = (form: HTMLFormElement): void => {
    const fields = new FormData(form);
    const wanted = new URLSearchParams();
    for (const [name] of TEXTS) set(wanted, name, String(fields.get(name)).trim());
    for (const [name] of TIMES) set(wanted, name, msOfLocal(String(fields.get(name))));
    const hash = `#events?${wanted}`;
    if (location.hash === hash) load();
    else location.hash = hash;
  };
  const entries = pages.flatMap((page) => page.entries);
  const beforeMs = pages.at(-1)?.beforeMs;
  return (
    <section aria-labelledby="events-title" id="events" class="events">
      <h2 id="events-title">Events</h2>
      <form
        key={query}
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          show(event.currentTarget);
        }}
      >
        {TEXTS.map(([name, label, example]) => (
          <label key={name}>
            {label}
            <input name={name} maxLength={512} placeholder={example} defaultValue={filters.get(name) ?? ""} />
          </label>
        ))}
        {TIMES.map(([name, label]) => (
          <label key={name}>
            {label}
            <input name={name} type="datetime-local" defaultValue={localOfMs(filters.get(name))} />
          </label>
        ))}
        <button type="submit">Show</button>
      </form>
      {failure !== "" && (
        <p class="trouble" role="alert">
          {failure}
        </p>
      )}
      <MissingEvents missing={[...new Set(pages.flatMap((page) => page.missing))]} />
      {entries.length === 0 && failure === "" && <p class="none">{isAsking ? "Loading…" : "No such events."}</p>}
      <EventList entries={entries} />
      {beforeMs !== undefined && (
        <button type="button" class="more" disabled={isAsking} onClick={() => load(beforeMs)}>
          Show earlier events
        </button>
      )}
    </section>
  );
}

function useEvents(query: string) {
  const [pages, setPages] = useState<readonly EventsAnswer[]>([]);
  const [failure, setFailure] = useState("");
  const [asked, setAsked] = useState<{ readonly query: string; readonly beforeMs?: number }>({ query });
  const [isAsking, setAsking] = useState(true);
  useEffect(() => setAsked({ query }), [query]);
  useEffect(() => {
    const gone = new AbortController();
    const wanted = new URLSearchParams(asked.query);
    if (asked.beforeMs === undefined) setPages([]);
    else wanted.set("before", String(asked.beforeMs));
    setAsking(true);
    setFailure("");
    ask<EventsAnswer>(`/page/events?${wanted}`, { signal: gone.signal })
      .then((answer) => setPages((before) => [...before, answer]))
      .catch((error: Error) => gone.signal.aborted || setFailure(error.message))
      .finally(() => gone.signal.aborted || setAsking(false));
    return () => gone.abort();
  }, [asked]);
  const load = (beforeMs?: number): void => setAsked({ query, ...(beforeMs !== undefined && { beforeMs }) });
  return { pages, failure, isAsking, load };
}

function set(params: URLSearchParams, name: string, value: string): void {
  if (value !== "") params.set(name, value);
}

const MINUTE_MS = 60_000;

/** Converts the value of a datetime-local input, which is in the browser's time zone. */
function msOfLocal(text: string): string {
  const timeMs = new Date(text).getTime();
  return Number.isNaN(timeMs) ? "" : String(timeMs);
}

function localOfMs(text: string | null): string {
  const timeMs = Number(text);
  if (!text || Number.isNaN(timeMs)) return "";
  return new Date(timeMs - new Date(timeMs).getTimezoneOffset() * MINUTE_MS).toISOString().slice(0, 16);
}
