import { useState } from "preact/hooks";
import { type Action, Confirmation, type Field } from "./confirmation.js";
import type { OrphanRow, TaskRow } from "./rows.js";
import type { Store } from "./store.js";
import { sizeText } from "./text.js";

const REASON: Field = { name: "reason", label: "Why? It is recorded with what is done." };
const SPAN: Field = { name: "for", label: "For at most", hint: "such as 30m or 2h, at most 7d" };
const SIZE = { name: "size", label: "Size", hint: "such as 10GiB" };
const LIMITS: readonly Field[] = [
  { name: "read_iops", label: "Reads per second", hint: "empty: no limit", isOptional: true },
  { name: "write_iops", label: "Writes per second", hint: "empty: no limit", isOptional: true },
  ...(["read", "write"] as const).map((verb) => ({
    name: `${verb}_bytes_per_second`,
    label: `Bytes ${verb === "read" ? "read" : "written"} per second`,
    hint: "such as 50MiB; empty: no limit",
    isOptional: true,
  })),
];

/** Returns the actions of an object. Their labels have the words of the command's actions. */
export function actionsOf(kind: string, name: string, { tables }: Store): readonly Action[] {
  const at = encodeURIComponent(name);
  switch (kind) {
    case "orphan":
      return actionsOfOrphan(at, tables.orphan.get(name));
    case "host":
      return actionsOfHost(name, tables);
    case "vm":
      return actionsOfVm(name, tables);
    case "disk":
      return actionsOfDisk(name, tables);
    case "task":
      return actionsOfTask(`/page/tasks/${at}`, tables.task.get(name));
    default:
      return [];
  }
}

type Tables = Store["tables"];

function actionsOfOrphan(at: string, row: OrphanRow | undefined): readonly Action[] {
  if (row === undefined) return [];
  const forget: Action = { label: "Forget", path: `/page/orphans/${at}/forget` };
  return row.objectCid === "" ? [forget] : [{ label: "Delete", path: `/page/orphans/${at}/delete` }, forget];
}

function actionsOfTask(path: string, row: TaskRow | undefined): readonly Action[] {
  if (row === undefined || row.hasEnded) return [];
  const cancel: Action = { label: "Cancel", path: `${path}/cancel` };
  return row.state === "held" ? [{ label: "Resume", path: `${path}/resume` }, cancel] : [cancel];
}

function actionsOfVm(name: string, { vm, pool }: Tables): readonly Action[] {
  const row = vm.get(name);
  if (row === undefined || row.cid === "") return [];
  const type: Field = { name: "pool", label: "Disk type", hint: "empty: default", isOptional: true };
  return [provision(`/page/instances/${row.id}`, type, row.az, pool)];
}

/** Returns the action that provides a disk in an az, with the size of the largest disk that can be made there now. */
function provision(path: string, kindOfDisk: Field, az: string, pools: Tables["pool"]): Action {
  const there = [...pools.values()].filter((pool) => pool.az === az);
  const largest = there.map(({ pool, maxDiskBytes }) => `${sizeText(maxDiskBytes)} in pool ${pool}`).join(", ");
  const size: Field = { ...SIZE, ...(largest !== "" && { note: `The largest disk that fits now: ${largest}.` }) };
  const fields = [{ name: "disk_name", label: "Name of the disk" }, size, kindOfDisk];
  return { label: "Provide a disk", path: `${path}/provide`, fields };
}

function actionsOfHost(name: string, { host, pool }: Tables): readonly Action[] {
  const row = host.get(name);
  if (row === undefined) return [];
  const path = `/page/hosts/${encodeURIComponent(name)}`;
  const ofHost: Field = { name: "pool", label: "Pool", hint: "empty: default", isOptional: true };
  const state = (label: string, wanted: string, fields: readonly Field[] = []): Action => ({
    ...{ label, path: `${path}/state`, body: { state: wanted }, fields },
  });
  const isOpen = row.state !== "dead" && !row.isCordoned;
  const remove: Action = { label: "Remove", path: `${path}/remove` };
  return [
    ...(row.state === "dead" ? [] : [provision(path, ofHost, row.az, pool)]),
    ...(isOpen ? [{ label: "Maintenance", path: `${path}/maintenance`, fields: [SPAN, REASON] }] : []),
    ...(isOpen ? [state("Cordon", "cordoned", [REASON])] : [state("Mark as online", "online")]),
    ...(row.state === "dead" ? [] : [state("Mark as dead", "dead", [REASON])]),
    { label: "Fence", path: `${path}/fence`, fields: [REASON] },
    ...(row.removal === "done" ? [] : [remove]),
    ...(row.removal === "" ? [] : [{ label: "Add again", path: `${path}/keep` }]),
  ];
}

function actionsOfDisk(name: string, { disk, label, host, vm }: Tables): readonly Action[] {
  const row = disk.get(name);
  const path = `/page/disks/${encodeURIComponent(name)}`;
  if (row?.state === "deleted") return [{ label: "Undelete", path: `${path}/undelete` }];
  const { of, isAttached = false } = label.get(name) ?? {};
  const hosts = [...host.keys()].sort().map((id) => [id, id] as const);
  const near = hosts.filter(([id]) => host.get(id)?.az === row?.az && host.get(id)?.removal === "");
  const elsewhere: Field = { name: "to", label: "Host", choices: [["", "any other host"], ...near], isOptional: true };
  const migrate: Action = { label: "Migrate", path: `${path}/migrate`, fields: [elsewhere] };
  const cancel: Action = { label: "Cancel the move", path: `${path}/cancel-move` };
  const moves = row === undefined ? [] : [row.isMoving ? cancel : migrate];
  if (of === undefined) return moves;
  const resize: Action = { label: "Resize", path: `${path}/resize`, fields: [SIZE] };
  const limit: Action = { label: "Set limits", path: `${path}/limits`, fields: LIMITS };
  if (isAttached) return [{ label: "Detach", path: `${path}/detach` }, resize, limit, ...moves];
  const choices = of === "host" ? hosts : [...vm].map(([instance, { id }]) => [id, instance] as const);
  const to: Field = { name: "to", label: of === "host" ? "Host" : "Instance", choices };
  const attach: Action = { label: "Attach", path: `${path}/attach`, fields: [to] };
  return [attach, resize, limit, ...moves, { label: "Delete", path: `${path}/delete` }];
}

interface ActionButtonsProps {
  readonly kind: string;
  readonly name: string;
  readonly store: Store;
}

/** Shows the actions of an object, each behind a confirmation with its consequences. */
export function ActionButtons({ kind, name, store }: ActionButtonsProps) {
  const [chosen, setChosen] = useState<Action>();
  const actions = actionsOf(kind, name, store);
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
