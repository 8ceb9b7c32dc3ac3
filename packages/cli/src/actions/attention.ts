import { type Cause, SubjectKind, type TroubledObject } from "@diskmesh/api/common";
import { DomainError } from "@diskmesh/domain";
import { type Attention, attentionTo, type Troubled, type TroubledKind } from "@diskmesh/page/attention";
import { allPages } from "@diskmesh/rpc";
import type { Mesh, ServiceName } from "../mesh/mesh.js";
import { silenceOf } from "../mesh/service-state.js";
import { EndedWith, EXIT_CODES } from "../output/exit-codes.js";
import { type Columns, type Output, timeText } from "../output/output.js";

/** Kinds as users type them to `why`. */
const KINDS: Readonly<Record<TroubledKind, readonly [kind: SubjectKind, typed: string]>> = {
  source: [SubjectKind.SERVICE, "service"],
  host: [SubjectKind.HOST, "host"],
  task: [SubjectKind.TASK, "task"],
  vm: [SubjectKind.VM, "vm"],
  disk: [SubjectKind.DISK, "disk"],
  device: [SubjectKind.DEVICE, "device"],
  cpi: [SubjectKind.CPI, "cpi"],
};

/** Longer than a director waits for its registries and dispatchers. */
const DIRECTOR_DEADLINE_MS = 8_000;
const REGISTRY_DEADLINE_MS = 3_000;
const PAGE_SIZE = 1_000;
const SHOWN_NAMES = 3;

/** An entry of the list, with the kind as users type it to `why`. */
type Listed = Omit<Attention, "kind"> & { readonly kind: string };

const COLUMNS: Columns<Listed> = {
  kind: ({ kind }) => kind,
  name: ({ names }) =>
    names.length > SHOWN_NAMES
      ? `${names.slice(0, SHOWN_NAMES).join(" ")} and ${names.length - SHOWN_NAMES} more`
      : names.join(" "),
  since: ({ sinceMs }) => (sinceMs === undefined ? "" : timeText(new Date(sinceMs))),
  trouble: ({ trouble }) => trouble,
};

/**
 * Returns what needs attention, as the director's page lists it. Without the director, returns the director's absence
 * and the troubles of the disk-registry.
 */
export async function whatNeedsAttention(mesh: Mesh): Promise<Listed[]> {
  try {
    return attentionOf(await troublesOf(mesh, "director", DIRECTOR_DEADLINE_MS));
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    const silent = async (name: ServiceName, why: unknown): Promise<TroubledObject> => ({
      subject: { kind: SubjectKind.SERVICE, name },
      message: textOf(await silenceOf(name, mesh.addresses(name)[0] ?? "", why)),
      startTime: undefined,
      hasEnded: false,
    });
    const objects = await troublesOf(mesh, "disk-registry", REGISTRY_DEADLINE_MS).catch(async (why: unknown) => [
      await silent("disk-registry", why),
    ]);
    return attentionOf([await silent("director", error), ...objects]);
  }
}

const textOf = ({ message, cures }: Cause): string => [message, ...cures.map(({ what }) => what)].join(": ");

function troublesOf(mesh: Mesh, service: ServiceName, deadlineMs: number): Promise<TroubledObject[]> {
  return allPages(async (pageToken) => {
    const request = { pageSize: PAGE_SIZE, pageToken };
    const { objects, nextPageToken } = await mesh.admin(service).listTroubles(request, { deadlineMs });
    return { items: objects, nextPageToken };
  });
}

function attentionOf(objects: readonly TroubledObject[]): Listed[] {
  const troubledIn = (kind: TroubledKind): Troubled[] =>
    objects.flatMap(({ subject, message, startTime, hasEnded }) =>
      subject?.kind === KINDS[kind][0]
        ? [{ kind, name: subject.name, trouble: message, sinceMs: startTime?.getTime(), hasEnded }]
        : [],
    );
  return attentionTo(troubledIn).map(({ kind, ...rest }) => ({ kind: KINDS[kind][1], ...rest }));
}

export function listAttention(output: Output, attention: readonly Listed[]): void {
  output.list(COLUMNS, attention, "nothing needs attention");
}

/** Prints what needs attention, and ends the command with `failed` when something does. */
export function tellAttention(output: Output, attention: readonly Listed[]): void {
  listAttention(output, attention);
  if (attention.length > 0) throw new EndedWith(EXIT_CODES.failed);
}
