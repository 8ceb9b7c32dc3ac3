import { useState } from "preact/hooks";
import { type Action, Confirmation, type Field } from "./confirmation.js";
import type { HostRow, LabelRow, OrphanRow, RowKind, Rows } from "./rows.js";
import type { Store } from "./store.js";

const REASON: Field = { name: "reason", label: "Why? It is recorded with what is done." };
const SIZE = { name: "size", label: "Size", hint: "such as 10GiB" };
const NO_LIMIT = { isOptional: true };
const LIMITS: readonly Field[] = [
  { name: "read_iops", label: "Reads per second", hint: "empty: no limit", ...NO_LIMIT },
  { name: "write_iops", label: "Writes per second", hint: "empty: no limit", ...NO_LIMIT },
  {
    name: "read_bytes_per_second",
    label: "Bytes read per second",
    hint: "such as 50MiB; empty: no limit",
    ...NO_LIMIT,
  },
  {
    name: "write_bytes_per_second",
    label: "Bytes written per second",
    hint: "such as 50MiB; empty: no limit",
    ...NO_LIMIT,
  },
];

function actionsOf(kind: string, name: string, row: Rows[RowKind] | undefined, store: Store): readonly Action[] {
  const at = encodeURIComponent(name);
  if (row === undefined) return [];
  if (kind === "orphan") return actionsOfOrphan(at, row as OrphanRow);
  if (kind === "host") return actionsOfHost(`/page/hosts/${at}`, row as HostRow);
  if (kind === "disk") {
    if ("state" in row && row.state === "deleted")
      return [{ label: "Bring it back", path: `/page/disks/${at}/undelete` }];
    const move: Action = { label: "Cancel its move", path: `/page/disks/${at}/cancel-move` };
    const label = store.tables.label.get(name);
    const dynamic = label?.of === undefined ? [] : actionsOfDisk(`/page/disks/${at}`, label, store);
    return "isMoving" in row && row.isMoving ? [move, ...dynamic] : dynamic;
  }
  if (kind !== "task" || ("hasEnded" in row && row.hasEnded)) return [];
  const cancel: Action = { label: "Cancel it", path: `/page/tasks/${at}/cancel` };
  const resume: Action = { label: "Resume it", path: `/page/tasks/${at}/resume` };
  return "state" in row && row.state === "held" ? [resume, cancel] : [cancel];
}

function actionsOfOrphan(at: string, { objectCid }: OrphanRow): readonly Action[] {
  const forget: Action = { label: "Forget it", path: `/page/orphans/${at}/forget` };
  return objectCid === "" ? [forget] : [{ label: "Delete it", path: `/page/orphans/${at}/delete` }, forget];
}

function actionsOfHost(path: string, row: HostRow): readonly Action[] {
  const word: Action =
    row.state === "dead"
      ? { label: "Say it is not dead", path: `${path}/state`, body: { state: "online" } }
      : { label: "Say it is dead", path: `${path}/state`, body: { state: "dead" }, fields: [REASON] };
  const fence: Action = { label: "Fence it", path: `${path}/fence`, fields: [REASON] };
  const fields: readonly Field[] = [
    { name: "disk_name", label: "Name of the disk" },
    SIZE,
    { name: "pool", label: "Pool", hint: "empty: default", isOptional: true },
  ];
  const provide: Action = { label: "Give it a disk", path: `${path}/provide`, fields };
  return [provide, word, fence, ...cordons(path, row), ...removals(path, row)];
}

function cordons(path: string, { state, isCordoned }: HostRow): readonly Action[] {
  if (state === "dead") return [];
  return isCordoned
    ? [{ label: "Open it again", path: `${path}/state`, body: { state: "online" } }]
    : [{ label: "Cordon it", path: `${path}/state`, body: { state: "cordoned" }, fields: [REASON] }];
}

/** Returns the actions that start, continue or revoke the removal of a host. */
function removals(path: string, { removal }: HostRow): readonly Action[] {
  if (removal === "") return [{ label: "Remove it", path: `${path}/remove` }];
  const keep: Action = { label: "Keep it after all", path: `${path}/keep` };
  return removal === "done" ? [keep] : [{ label: "Go on removing it", path: `${path}/remove` }, keep];
}

/** Returns the actions on a dynamic disk. */
function actionsOfDisk(path: string, { of, isAttached }: LabelRow, { tables }: Store): readonly Action[] {
  const resize: Action = { label: "Enlarge it", path: `${path}/resize`, fields: [SIZE] };
  const limit: Action = { label: "Limit it", path: `${path}/limits`, fields: LIMITS };
  if (isAttached) return [{ label: "Detach it", path: `${path}/detach` }, resize, limit];
  const choices: readonly (readonly [string, string])[] =
    of === "host"
      ? [...tables.host.keys()].map((id) => [id, id])
      : [...tables.vm].map(([instance, { id }]) => [id, instance]);
  const to: Field = { name: "to", label: of === "host" ? "Host" : "Instance", choices };
  const attach: Action = { label: "Attach it", path: `${path}/attach`, fields: [to] };
  return [attach, resize, limit, { label: "Delete it", path: `${path}/delete` }];
}

interface ActionButtonsProps {
  readonly kind: string;
  readonly name: string;
  readonly row: Rows[RowKind] | undefined;
  readonly store: Store;
}

/** Shows the actions of an object, each behind a confirmation with its consequences. */
export function ActionButtons({ kind, name, row, store }: ActionButtonsProps) {
  const [chosen, setChosen] = useState<Action>();
  const actions = actionsOf(kind, name, row, store);
  if (actions.length === 0 && chosen === undefined) return null;
  return (
    <div class="actions">
      {actions.map((action) => (
        <button key={action.label} type="button" onClick={() => setChosen(action)}>
          {action.label}…
        </button>
      ))}
      {chosen && (
        <Confirmation key={chosen.label} kind={kind} name={name} action={chosen} onClose={() => setChosen(undefined)} />
      )}
    </div>
  );
}
