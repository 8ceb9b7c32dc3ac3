import { type ListTroublesResponse, SubjectKind } from "@diskmesh/api/common";
import type { Host } from "@diskmesh/api/registry";
import { messageOf } from "@diskmesh/domain";
import type { Troubled, TroubledKind } from "@diskmesh/page/attention";
import { allPages } from "@diskmesh/rpc";
import type { Registries, RegistryClients } from "../explain/registries.js";
import { leftoverVolumes } from "./leftover-volumes.js";
import { allVmRows, cpiName, type OwnParts, taskRows } from "./own.js";
import { cpiRow } from "./own-rows.js";
import { RowCache } from "./row-cache.js";
import { causeOfRegistry, massSilenceCause, ownSourceRow, sourceRow } from "./source-row.js";

export interface Troubles {
  readonly troubled: readonly Troubled[];
  /** Number of further objects with trouble. */
  readonly more: number;
}

const PAGE_SIZE = 1_000;
/** Deadline of each call to a registry or dispatcher, so that one that hangs becomes an entry of the list. */
const DEADLINE_MS = 3_000;

/** Returns the objects with trouble of the director and its registries. */
export async function readTroublesOnce(own: OwnParts, registries: Registries, signal: AbortSignal): Promise<Troubles> {
  const rowCache = new RowCache();
  const call = { signal, deadlineMs: DEADLINE_MS };
  rowCache.set("source", "director", ownSourceRow(own.report()));
  const found = await Promise.all(registries.named().map((each) => registryTroubles(each, rowCache, call)));
  await Promise.all(own.cpisOf.map((each) => setCpis(each, own, rowCache, call)));
  rowCache.setAll("task", await taskRows(own));
  const hosts = found.map((each) => each?.hosts);
  const isKnown = hosts.length > 0 && !hosts.includes(undefined);
  const cids = new Set(hosts.flatMap((each) => each?.map(({ assignment }) => assignment?.vmCid ?? "") ?? []));
  rowCache.setAll("vm", await allVmRows(own, ({ vmCid }) => isKnown && !cids.has(vmCid)));
  const { tablet, clock } = own;
  const leftovers = await tablet.read(({ disks }) => [
    ...leftoverVolumes(disks.entries(), tablet.incarnation, clock.nowMs()),
  ]);
  signal.throwIfAborted();
  return {
    troubled: [...found.flatMap((each) => each?.troubled ?? []), ...troubledRows(rowCache), ...leftovers],
    more: found.reduce((sum, each) => sum + (each?.more ?? 0), 0),
  };
}

type Call = { readonly signal: AbortSignal; readonly deadlineMs: number };

/** Sets the registry's row. Returns undefined for a registry that does not answer. */
async function registryTroubles(
  { name, clients }: { readonly name: string; readonly clients: RegistryClients },
  rowCache: RowCache,
  call: Call,
): Promise<(Troubles & { readonly hosts: readonly Host[] }) | undefined> {
  try {
    const { massSilence } = await clients.registry.listHosts({ pageSize: 1 }, call);
    const [hosts, { objects, more }] = await Promise.all([
      allPages(async (pageToken) => {
        const page = await clients.registry.listHosts({ pageToken, pageSize: PAGE_SIZE }, call);
        return { items: page.hosts, nextPageToken: page.nextPageToken };
      }),
      clients.admin.listTroubles({}, call),
    ]);
    rowCache.set("source", name, sourceRow("live", massSilence === undefined ? [] : [massSilenceCause(massSilence)]));
    return { hosts, more, troubled: objects.flatMap(troubledOf) };
  } catch (error) {
    call.signal.throwIfAborted();
    const untold = { message: messageOf(error), sinceMs: undefined, cures: [] };
    const cause = (await causeOfRegistry(clients, call.signal)) ?? untold;
    // Not "silent": that state's text says that old rows are shown.
    rowCache.set("source", name, sourceRow("live", [cause]));
    return undefined;
  }
}

async function setCpis(
  { name, list }: OwnParts["cpisOf"][number],
  own: OwnParts,
  rowCache: RowCache,
  { signal, deadlineMs }: Call,
): Promise<void> {
  try {
    const cpis = await list(AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)]));
    for (const cpi of cpis) rowCache.set("cpi", cpiName(own, name, cpi.name), cpiRow(cpi));
  } catch (error) {
    signal.throwIfAborted();
    rowCache.set("source", name, { state: "silent", trouble: messageOf(error) });
  }
}

/** Kinds whose rows have trouble of their own. */
const KINDS = {
  source: SubjectKind.SERVICE,
  host: SubjectKind.HOST,
  device: SubjectKind.DEVICE,
  disk: SubjectKind.DISK,
  vm: SubjectKind.VM,
  task: SubjectKind.TASK,
  cpi: SubjectKind.CPI,
} as const satisfies Record<TroubledKind, SubjectKind>;

function troubledOf({ subject, message, since, hasEnded }: ListTroublesResponse["objects"][number]): Troubled[] {
  const [kind] = Object.entries(KINDS).find(([, each]) => each === subject?.kind) ?? [];
  if (kind === undefined || subject === undefined) return [];
  const { name } = subject;
  return [{ kind: kind as TroubledKind, name, trouble: message, sinceMs: since?.getTime(), hasEnded }];
}

function* troubledRows(rowCache: RowCache): Generator<Troubled> {
  for (const [kind, name, row] of rowCache.rows()) {
    if (kind === "lock" || kind === "label" || kind === "pool" || kind === "orphan" || row.trouble === undefined)
      continue;
    const { trouble, sinceMs } = row;
    yield { kind, name, trouble, sinceMs, hasEnded: "hasEnded" in row && row.hasEnded };
  }
}

const MAX_LISTED = 10_000;

/** Returns the list for programs. */
export function troublesMessage({ troubled, more }: Troubles): ListTroublesResponse {
  const objects = troubled.slice(0, MAX_LISTED).map(({ kind, name, trouble, sinceMs, hasEnded }) => ({
    subject: { kind: KINDS[kind], name },
    message: trouble,
    since: sinceMs === undefined ? undefined : new Date(sinceMs),
    hasEnded,
  }));
  return { objects, more: more + troubled.length - objects.length };
}
