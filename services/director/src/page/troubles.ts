import { type ListTroublesRequest, type ListTroublesResponse, SubjectKind } from "@diskmesh/api/common";
import type { Troubled, TroubledKind } from "@diskmesh/page/attention";
import type { RowKind } from "@diskmesh/page/rows";
import { pageOfItems } from "@diskmesh/rpc";
import type { Clock } from "@diskmesh/service";
import type { DirectorTablet } from "../store/stored-schema.js";
import { leftoverVolumes } from "./leftover-volumes.js";
import type { Overview } from "./overview.js";
import type { RowCache } from "./row-cache.js";

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

const placeOf = ({ kind, name }: Troubled) => `${kind} ${name}`;

interface Sources {
  readonly overview: Pick<Overview, "rows">;
  readonly tablet: DirectorTablet;
  readonly clock: Clock;
}

/** Lists the page's objects with trouble, and volumes that nobody needs. */
export async function listTroubles(
  { overview, tablet, clock }: Sources,
  request: ListTroublesRequest,
): Promise<ListTroublesResponse> {
  const leftovers = await tablet.read(({ disks }) => [
    ...leftoverVolumes(disks.entries(), tablet.incarnation, clock.nowMs()),
  ]);
  const troubled = [...troubledRows(await overview.rows()), ...leftovers];
  const { items, nextPageToken } = pageOfItems(
    request,
    troubled.sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1)),
    { what: "troubles", keyOf: placeOf },
  );
  const objects = items.map(({ kind, name, trouble, sinceMs, hasEnded }) => ({
    subject: { kind: KINDS[kind], name },
    message: trouble,
    startTime: sinceMs === undefined ? undefined : new Date(sinceMs),
    hasEnded,
  }));
  return { objects, nextPageToken };
}

function* troubledRows(rows: ReturnType<RowCache["rows"]>): Generator<Troubled> {
  for (const [kind, name, row] of rows) {
    const isUnread = kind === "source" && "state" in row && row.state === "reading";
    const trouble = isUnread ? "its objects are still being read: ask again" : row.trouble;
    if (!hasTroubles(kind) || trouble === undefined) continue;
    const { sinceMs } = row;
    yield { kind, name, trouble, sinceMs, hasEnded: "hasEnded" in row && row.hasEnded };
  }
}

function hasTroubles(kind: RowKind): kind is TroubledKind {
  return Object.hasOwn(KINDS, kind);
}
