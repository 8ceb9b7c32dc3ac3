import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ActionButtons } from "./actions.js";
import { DeviceFacts, DevicesOfHost, FactList } from "./devices.js";
import { EventList, MissingEvents } from "./events.js";
import { type Selection, useAnswer, useTicks } from "./hooks.js";
import { Age, instanceOf, labelOf, State, Thing, Told } from "./lists.js";
import { PartsOfDisk } from "./parts.js";
import { type Cure, type EventsAnswer, hostStateOf, type RowKind, type Rows, type WhyAnswer } from "./rows.js";
import type { Store } from "./store.js";
import { heardText, kindText, sizeText, whenText } from "./text.js";

/** Kinds of objects that the services can explain, and kinds that have events. */
const EXPLAINED = ["host", "device", "disk", "task", "lock", "vm", "pool"];
const WITH_EVENTS = ["host", "device", "disk"];
/** Interval of repeated queries, even when no displayed row has changed. */
const ASK_AGAIN_MS = 5_000;

/** Shows one object: its state, the reasons, its history and its actions. */
export function Detail({ selection, store }: { selection: Selection; store: Store }) {
  const { kind } = selection;
  const name = kind === "vm" ? instanceOf(selection.name) : selection.name;
  const heading = useRef<HTMLHeadingElement>(null);
  useTicks(ASK_AGAIN_MS);
  useEffect(() => heading.current?.focus({ preventScroll: false }), [kind, name]);
  const row = rowOf(store, { kind, name });
  // A new mark repeats the queries. It changes with the row, which may have new reasons, and every ASK_AGAIN_MS,
  // because answers contain ages.
  const mark = `${JSON.stringify(row)} ${Math.floor(Date.now() / ASK_AGAIN_MS)}`;
  return (
    <aside aria-labelledby="detail-title" id="detail">
      <header>
        <h2 id="detail-title" tabIndex={-1} ref={heading}>
          <span class="kind">{kindText(kind)}</span> {labelOf(kind, name)}
        </h2>
        <a class="close" href="#overview" aria-label="Close the details">
          ×
        </a>
      </header>
      {kind === "device" && <DeviceFacts name={name} mark={mark} />}
      {kind === "pool" && <SpaceOfPool name={name} store={store} />}
      {kind !== "device" && kind !== "pool" && <Facts kind={kind} name={name} row={row} store={store} />}
      <ActionButtons kind={kind} name={name} row={row} store={store} />
      {row !== undefined && "cures" in row && <Cures cures={row.cures} />}
      {EXPLAINED.includes(kind) && <Why kind={kind} name={name} mark={mark} />}
      {kind === "host" && <DevicesOfHost name={name} mark={mark} />}
      {kind === "disk" && <PartsOfDisk name={name} mark={mark} />}
      {WITH_EVENTS.includes(kind) && <Timeline kind={kind} name={name} mark={mark} />}
    </aside>
  );
}

function rowOf({ tables }: Store, { kind, name }: Selection): Rows[RowKind] | undefined {
  return Object.hasOwn(tables, kind) ? tables[kind as RowKind].get(name) : undefined;
}

interface FactsProps {
  readonly kind: string;
  readonly name: string;
  readonly row: Rows[RowKind] | undefined;
  readonly store: Store;
}

/** Shows an object's facts, including those that lists omit. The trouble of an explained object is under "Why". */
function Facts({ kind, name, row, store }: FactsProps) {
  if (row === undefined) return <p class="none">{store.isComplete ? "It is not there (any more)." : "Loading…"}</p>;
  const facts: [string, ComponentChildren][] = [];
  const add = (title: string, value: ComponentChildren): void => {
    if (value !== "" && value !== undefined) facts.push([title, value]);
  };
  if (labelOf(kind, name) !== name) add("id", name);
  if ("state" in row) add("state", <State state={"removal" in row ? hostStateOf(row) : row.state} />);
  if ("health" in row) add("health", <State state={row.health} />);
  if (row.sinceMs !== undefined) add(timeTitle(kind, row), <Age sinceMs={row.sinceMs} />);
  if ("az" in row) add("az", row.az);
  if ("rack" in row) add("rack", row.rack);
  if ("vm" in row && row.vm !== "") add("serves as", <ServedVm store={store} cid={row.vm} />);
  if ("isCordoned" in row && row.isCordoned) add("cordoned", "it gets no new disk and no new VM");
  if ("removal" in row && row.removal !== "")
    add("removal", row.removal === "done" ? "it is out of operation" : "wanted, and not done yet");
  if ("cid" in row) {
    const hosts = [...store.tables.host].filter(([, { vm }]) => vm !== "" && vm === row.cid);
    add("VM", row.cid || "none");
    if (hosts.length > 0) add("host", <Things kind="host" names={hosts.map(([host]) => host)} />);
    add("CPI", row.cpi || "default");
    add("its jobs are", row.jobs);
    add("agent heard", heardText(row.heardMs));
    if (row.disks.length > 0) add("disks", <Things kind="disk" names={row.disks} />);
  }
  if ("madeFor" in row) {
    add("kind", row.what);
    add("CID", row.objectCid || "unknown");
    add("made for", row.madeFor);
    add("reason", row.reason);
  }
  if ("host" in row && row.host !== "")
    add(kind === "disk" ? "published to" : "host", <Thing kind="host" name={row.host} />);
  if ("pool" in row) add("pool", row.pool);
  if ("sizeBytes" in row) add("size", sizeText(row.sizeBytes));
  if ("limits" in row) add("limits", row.limits || "none");
  if ("progress" in row) add("progress", row.progress);
  if ("user" in row) add("asked for by", row.user);
  if ("deployment" in row) add("deployment", row.deployment);
  if ("owner" in row) {
    add("held by", row.taskId === 0 ? row.owner : <Things kind="task" names={[String(row.taskId)]} />);
    if (row.waitingTaskIds.length > 0)
      add("waited for by", <Things kind="task" names={row.waitingTaskIds.map(String)} />);
  }
  if ("type" in row) {
    add("type", row.type);
    add("API version", row.apiVersion || "not reported");
    add("azs", row.azs.join(", "));
    add("last error", row.lastError || "none");
  }
  return (
    <>
      {row.trouble !== undefined && !EXPLAINED.includes(kind) && (
        <p class="trouble">
          <Told text={row.trouble} />
        </p>
      )}
      <FactList facts={facts} />
    </>
  );
}

/** Returns the title of a row's time: a disk without trouble has the time when it was created. */
function timeTitle(kind: string, row: Rows[RowKind]): string {
  if (row.trouble !== undefined) return "in trouble for";
  if ("state" in row && row.state === "deleted") return "deleted for";
  return kind === "disk" ? "age" : "for";
}

/** Shows a pool's space in each az. */
function SpaceOfPool({ name, store }: { name: string; store: Store }) {
  const rows = [...store.tables.pool.values()].filter(({ pool }) => pool === name);
  if (rows.length === 0)
    return <p class="none">{store.isReading("disk-registry") ? "Loading…" : "No device of it is attached."}</p>;
  return (
    <FactList
      facts={rows.map(({ az, freeBytes, totalBytes, maxDiskBytes }) => [
        az || "no az",
        `${sizeText(freeBytes)} of ${sizeText(totalBytes)} free, largest disk ${sizeText(maxDiskBytes)}`,
      ])}
    />
  );
}

function ServedVm({ store, cid }: { store: Store; cid: string }) {
  const name = instanceOf(cid);
  return store.tables.vm.has(name) ? <Thing kind="vm" name={name} /> : <>VM {cid}</>;
}

function Things({ kind, names }: { kind: string; names: readonly string[] }) {
  return (
    <>
      {names.map((name) => (
        <span key={name} class="one">
          <Thing kind={kind} name={name} />
        </span>
      ))}
    </>
  );
}

interface AskedProps {
  readonly kind: string;
  readonly name: string;
  readonly mark: string;
}

function Why({ kind, name, mark }: AskedProps) {
  const { answer, failure } = useAnswer<WhyAnswer>(`/page/why?${new URLSearchParams({ kind, name })}`, mark);
  return (
    <section aria-labelledby="why-title" id="why">
      <h3 id="why-title">Why</h3>
      {answer === undefined && <p class="none">{failure ?? "Loading…"}</p>}
      {answer && (
        <>
          <p>{answer.summary}</p>
          {answer.causes.length === 0 && <p class="none">No problem is known.</p>}
          <ol class="causes">
            {answer.causes.map((cause) => (
              <li key={`${cause.kind} ${cause.name} ${cause.reason} ${cause.message}`}>
                <p>
                  <strong>{cause.reason}</strong> <Thing kind={cause.kind} name={cause.name} />{" "}
                  <Age sinceMs={cause.sinceMs} />
                </p>
                <p>
                  <Told text={cause.message} />
                </p>
                {cause.nextTryAtMs !== undefined && <p class="none">next at {whenText(cause.nextTryAtMs)}</p>}
                {cause.cures.map((cure) => (
                  <CureLine key={cure.what + cure.command} {...cure} />
                ))}
              </li>
            ))}
          </ol>
        </>
      )}
    </section>
  );
}

function Cures({ cures = [] }: { cures?: readonly Cure[] | undefined }) {
  return (
    <section aria-labelledby="cures-title">
      <h3 id="cures-title">What helps</h3>
      {cures.map((cure) => (
        <CureLine key={cure.what} {...cure} />
      ))}
    </section>
  );
}

function CureLine({ what, command }: Cure) {
  const copy = (): void => void navigator.clipboard?.writeText(command);
  return (
    <div class="cure">
      <span>
        <Told text={what} />
      </span>
      {command !== "" && (
        <>
          <code>{command}</code>
          <button type="button" onClick={copy} aria-label={`Copy the command: ${command}`}>
            copy
          </button>
        </>
      )}
    </div>
  );
}

function Timeline(props: AskedProps) {
  const { answer, failure } = useAnswer<EventsAnswer>(
    `/page/events?${new URLSearchParams({ thing: props.name, brief: "true" })}`,
    props.mark,
  );
  const isItself = (kind: string, name: string): boolean => kind === props.kind && name === props.name;
  const entries = answer?.entries.map((entry) => {
    return { ...entry, things: entry.things.filter(({ kind, name }) => !isItself(kind, name)) };
  });
  return (
    <section aria-labelledby="timeline-title" id="timeline">
      <h3 id="timeline-title">What happened</h3>
      {answer === undefined && <p class="none">{failure ?? "Loading…"}</p>}
      {answer && <MissingEvents missing={answer.missing} />}
      {entries?.length === 0 && <p class="none">Nothing is recorded.</p>}
      {entries && <EventList entries={entries} />}
    </section>
  );
}
