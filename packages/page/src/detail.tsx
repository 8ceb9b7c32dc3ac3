import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ActionButtons } from "./actions.js";
import { DeviceFacts, DevicesOfHost, FactList } from "./devices.js";
import { EventList, MissingEvents } from "./events.js";
import { type Selection, useAnswer, useTicks } from "./hooks.js";
import { Journal } from "./journal.js";
import { Age, instanceOf, labelOf, State, Thing, Told } from "./lists.js";
import { DiskPanel } from "./parts.js";
import {
  type Cure,
  type EventsAnswer,
  type HostPanelAnswer,
  hostStateOf,
  type RowKind,
  type Rows,
  type ServicePanelAnswer,
  type WhyAnswer,
} from "./rows.js";
import type { Store } from "./store.js";
import { TaskPanel } from "./task-panel.js";
import { ageText, heardText, kindText, sizeText, whenText } from "./text.js";

/** Kinds of objects that the services can explain, and kinds that have events. */
const EXPLAINED = ["host", "device", "disk", "task", "lock", "vm", "pool"];
const WITH_EVENTS = ["host", "device", "disk"];
/** Interval of repeated queries, even when no displayed row has changed. */
/** Actions of the events that change the state of a host, or report it. */
const STATES = "HostRegistered,HostUnavailable,HostBack,HostWarning,SetHostState,FenceHost,AddHost,RemoveHost";
const ASK_AGAIN_MS = 5_000;
const RUNNING_MS = 1_000;

interface DetailProps {
  readonly selection: Selection;
  readonly store: Store;
  /** Fragment of the place without the object. */
  readonly closeHash: string;
}

/** Shows one object: its state, the reasons, its history and its actions. */
export function Detail({ selection, store, closeHash }: DetailProps) {
  const { kind } = selection;
  const name = kind === "vm" ? instanceOf(selection.name) : selection.name;
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus({ preventScroll: false }), [kind, name]);
  const row = rowOf(store, { kind, name });
  // A new mark repeats the queries. It changes with the row, which may have new reasons, and every ASK_AGAIN_MS,
  // because answers contain ages, or every RUNNING_MS for a running task.
  const isRunning = row !== undefined && "hasEnded" in row && !row.hasEnded;
  const intervalMs = isRunning ? RUNNING_MS : ASK_AGAIN_MS;
  useTicks(intervalMs);
  const mark = `${JSON.stringify(row)} ${Math.floor(Date.now() / intervalMs)}`;
  return (
    <aside aria-labelledby="detail-title" id="detail">
      <header>
        <h2 id="detail-title" tabIndex={-1} ref={heading}>
          <span class="kind">{kindText(kind)}</span> {labelOf(kind, name)}
        </h2>
        <a class="close" href={closeHash} aria-label="Close the details">
          ×
        </a>
      </header>
      {kind === "device" && <DeviceFacts name={name} mark={mark} />}
      {kind === "pool" && <SpaceOfPool name={name} store={store} />}
      {kind !== "device" && kind !== "pool" && <Facts kind={kind} name={name} row={row} store={store} />}
      {kind === "source" && <ServiceFacts name={name} mark={mark} />}
      {kind === "host" && <HostFacts name={name} mark={mark} />}
      <ActionButtons kind={kind} name={name} store={store} />

      {row !== undefined && "cures" in row && <Cures cures={row.cures} />}
      {EXPLAINED.includes(kind) && <Why kind={kind} name={name} mark={mark} />}
      {kind === "task" && <TaskPanel name={name} mark={mark} store={store} />}
      {kind === "host" && <DevicesOfHost name={name} mark={mark} />}
      {kind === "disk" && row !== undefined && <DiskPanel name={name} mark={mark} />}
      {kind === "host" && (
        <Timeline id="states" title="History of its states" actions={STATES} kind={kind} name={name} mark={mark} />
      )}
      {WITH_EVENTS.includes(kind) && <Timeline kind={kind} name={name} mark={mark} />}
      {WITH_EVENTS.includes(kind) && <Journal key={name} kind={kind} name={name} mark={JSON.stringify(row) ?? ""} />}
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
  if ("vm" in row && row.vm !== "") add("VM", <Thing kind="vm" name={row.vm} />);
  if ("isCordoned" in row && row.isCordoned) add("cordoned", "it gets no new disk and no new VM");
  if ("removal" in row && row.removal !== "")
    add("removal", row.removal === "done" ? "it is out of operation" : "wanted, and not done yet");
  if ("cid" in row) {
    const hosts = [...store.tables.host].filter(([, { vm }]) => vm !== "" && vm === row.cid);
    add("VM", row.cid || "none");
    if (hosts.length > 0) add("host", <Things kind="host" names={hosts.map(([host]) => host)} />);
    add("CPI", row.cpi || "default");
    add("jobs", row.jobs);
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
  if ("user" in row) add("user", row.user);
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
    add("last error", <Told text={row.lastError || "none"} />);
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
          <p>
            <Told text={answer.summary} />
          </p>
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

/** Shows facts of a host that its row lacks. */
function HostFacts({ name, mark }: Pick<AskedProps, "name" | "mark">) {
  const { answer } = useAnswer<HostPanelAnswer>(`/page/host?${new URLSearchParams({ name })}`, mark);
  if (answer === undefined) return null;
  const { address, heardMs, registeredMs, maintenanceEndMs } = answer;
  return (
    <FactList
      facts={[
        ["address", address],
        ["heard", heardMs === undefined ? "not by the registry's present leader" : `${ageText(heardMs)} ago`],
        ["registered", registeredMs === undefined ? "" : whenText(registeredMs)],
        ["maintenance", maintenanceEndMs === undefined ? "" : `until ${whenText(maintenanceEndMs)}`],
      ]}
    />
  );
}

/** Shows where a service runs, and what the process that answers says of itself. */
function ServiceFacts({ name, mark }: Pick<AskedProps, "name" | "mark">) {
  const { answer, failure } = useAnswer<ServicePanelAnswer>(`/page/service?${new URLSearchParams({ name })}`, mark);
  if (answer === undefined) return <p class="none">{failure ?? "Loading…"}</p>;
  return (
    <>
      <FactList facts={[[answer.addresses.length === 1 ? "address" : "addresses", answer.addresses.join(", ")]]} />
      {answer.summary !== "" && <p>{answer.summary}</p>}
    </>
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

interface TimelineProps extends AskedProps {
  readonly id?: string;
  readonly title?: string;
  /** Actions of the shown events, with commas between them; absent for all. */
  readonly actions?: string;
}

function Timeline({ id = "timeline", title = "What happened", actions = "", ...props }: TimelineProps) {
  const query = new URLSearchParams({ thing: props.name, action: actions, brief: "true" });
  const { answer, failure } = useAnswer<EventsAnswer>(`/page/events?${query}`, props.mark);
  const isItself = (kind: string, name: string): boolean => kind === props.kind && name === props.name;
  const entries = answer?.entries.map((entry) => {
    return { ...entry, things: entry.things.filter(({ kind, name }) => !isItself(kind, name)) };
  });
  return (
    <section aria-labelledby={`${id}-title`} id={id}>
      <h3 id={`${id}-title`}>{title}</h3>
      {answer === undefined && <p class="none">{failure ?? "Loading…"}</p>}
      {answer && <MissingEvents missing={answer.missing} />}
      {entries?.length === 0 && <p class="none">Nothing is recorded.</p>}
      {entries && <EventList entries={entries} />}
    </section>
  );
}
