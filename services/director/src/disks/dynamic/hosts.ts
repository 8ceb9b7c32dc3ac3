import { cidOfHost } from "@diskmesh/cpi";
import { DomainError, InvalidStateError, messageOf, NotFoundError, UnavailableError } from "@diskmesh/domain";
import { allCpis } from "../../cpi/cpi-target.js";
import type { Target } from "../../instances/instance.js";
import type { DirectorTables } from "../../store/schema.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";

/** The answer of a CPI about a host. */
export type HostAnswer = { readonly az: string } | "absent" | { readonly failed: string };

/**
 * Returns the CPI that has the host, and the host's az. Throws InvalidStateError when two CPIs have a host of that name,
 * UnavailableError when that is not known, and NotFoundError when all CPIs answered that they do not have it.
 */
export function hostAmong(
  hostId: string,
  answers: ReadonlyMap<string, HostAnswer>,
): { readonly cpi: string; readonly az: string } {
  const about = { about: { host_id: hostId } };
  const all = [...answers];
  const found = all.flatMap(([cpi, answer]) =>
    typeof answer === "object" && "az" in answer ? [{ cpi, ...answer }] : [],
  );
  const [first, second] = found;
  if (second !== undefined) {
    const names = found.map(({ cpi }) => `\`${cpi}/${hostId}\``).join(" and ");
    throw new InvalidStateError(`host \`${hostId}\` is ambiguous: request one of ${names}`, about);
  }
  const silent = all.flatMap(([cpi, answer]) =>
    typeof answer === "object" && "failed" in answer ? [`CPI \`${cpi || "(default)"}\`: ${answer.failed}`] : [],
  );
  if (silent.length > 0) {
    const known =
      first === undefined ? "" : `; to use the host of the one that has it, request \`${first.cpi}/${hostId}\``;
    throw new UnavailableError(
      `host \`${hostId}\` cannot be looked up, because not all CPIs answer: ${silent.join("; ")}${known}`,
      about,
    );
  }
  if (first !== undefined) return first;
  throw hostNotFound(hostId);
}

/** Returns the error for a host that does not exist, or not in the caller's scope. */
export function hostNotFound(hostId: string): Error {
  return new NotFoundError(`host \`${hostId}\` not found: no CPI has it; \`diskmesh hosts\` lists hosts`, {
    about: { host_id: hostId },
  });
}

/** Returns the CPIs that may have a host: the named one, or all that the configs name, and the default CPI. */
export function cpisToAsk(context: DiskJobContext, tables: DirectorTables, hostCpi: string | undefined): string[] {
  if (hostCpi !== undefined) return [hostCpi];
  const { azs } = context.configs.cloud.current(tables);
  // With a cpi-config, its names include those of the azs.
  const ofAzs = context.configs.cpi.current(tables).cpis === undefined ? azs.map(({ cpi }) => cpi) : [];
  return [...new Set([...allCpis(context, tables), ...ofAzs])];
}

/** Returns a host as attach target. Asks the CPIs; the task must hold the lock of the host. */
export async function findHost(
  context: DiskJobContext,
  run: TaskRun,
  hostId: string,
  hostCpi: string | undefined,
): Promise<Target> {
  const vmCid = cidOfHost(hostId);
  const cpis = await context.tablet.read((tables) => cpisToAsk(context, tables, hostCpi));
  const asked = cpis.map(async (cpi) => [cpi, await askCpi(context, run, { cpi, vmCid })] as const);
  const { cpi, az } = hostAmong(hostId, new Map(await Promise.all(asked)));
  return { instanceId: "", hostId, deployment: "", az, cpi, vmCid, agentId: "", stemcellApiVersion: 0 };
}

async function askCpi(
  context: DiskJobContext,
  run: TaskRun,
  { cpi, vmCid }: { readonly cpi: string; readonly vmCid: string },
): Promise<HostAnswer> {
  try {
    const found = await context.cpi.callIfKnown("hasVm", { cpi }, { vmCid }, run);
    return found?.exists ? { az: found.az } : "absent";
  } catch (error) {
    run.checkpoint();
    if (!(error instanceof DomainError)) throw error;
    return { failed: messageOf(error) };
  }
}
