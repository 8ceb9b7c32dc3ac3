import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import {
  DomainError,
  InvalidArgumentError,
  InvalidStateError,
  messageOf,
  parseHostId,
  parseId,
} from "@diskmesh/domain";
import { loadConfig } from "@diskmesh/service";
import { fillTablet, type StoredChange } from "@diskmesh/tablet";
import { storageOf } from "@diskmesh/tablet-admin";
import { type Config, configSchema } from "../config/config.js";
import { planRebuild, type RebuildPlan } from "../model/rebuild/plan.js";
import { parseAddress } from "../requests/requests.js";
import { storedSchema } from "../store/stored-schema.js";
import { Agents, type Answered, type AskedAgent } from "./ask-agents.js";
import { planText } from "./plan-text.js";

const USAGE = `rebuild.js --config FILE --from-agents AGENTS [--fleet ID --yes [--replace]]
  --config FILE         the configuration of the registry: its tablet is made, with its certificate the agents are asked
  --from-agents AGENTS  file with a line "HOST-ID ADDRESS:PORT" for each agent
  --fleet ID            id of the fleet
  --yes                 make the registry; without it only the plan is printed
  --replace             replace a tablet, such as an interrupted rebuild's`;

/**
 * Makes the tablet of a lost registry from what the fleet's agents hold, and exits the process. Arguments come from the
 * command line.
 */
export async function runRebuild(): Promise<never> {
  try {
    const args = argumentsOf(process.argv.slice(2));
    const { config } = loadConfig(configSchema, resolve(args.config));
    for (const line of await rebuild(config, args)) process.stdout.write(`${line}\n`);
    process.exit(0);
  } catch (error) {
    const text = error instanceof DomainError ? error.message : error instanceof Error ? error.stack : String(error);
    process.stderr.write(`cannot rebuild: ${text}\n`);
    process.exit(1);
  }
}

async function rebuild(config: Config, args: Arguments): Promise<readonly string[]> {
  const agents = new Agents(config);
  const asked = parseAgents(readFileSync(resolve(args.fromAgents), "utf8"));
  const answered = await agents.ask(asked, args.fleet);
  const fleetId = fleetOf(answered, args.fleet);
  const claims = answered.flatMap(({ answer }) => ("claims" in answer ? answer.claims : []));
  const plan = planRebuild(claims, { fleetId, nowMs: Date.now() });
  for (const line of planText(plan, answered, fleetId)) process.stdout.write(`${line}\n`);
  if (!args.yes) return [`nothing was changed: with --fleet ${fleetId} --yes this becomes the registry`];
  requireComplete(answered);
  if (args.fleet === "") throw new InvalidArgumentError("--fleet is missing: give the id of the fleet with --yes");
  const incarnation = randomUUID();
  const told = claims.map(({ registration: { hostId, address, bootId } }) => ({ hostId, address, bootId }));
  const { generation } = await fillTablet({
    ...config.tablet,
    schema: storedSchema,
    storage: storageOf(config.tablet),
    tabletName: config.tablet.name,
    replace: args.replace,
    leaderWaitMs: 3 * config.tablet.leaseTimeMs,
    claim: { tabletId: fleetId, incarnation, parentIncarnations: [], generation: plan.tabletGeneration },
    // The storage is claimed by then: no other process can become the registry.
    changes: changesOnce(plan, () => agents.tell(told, { fleetId, incarnation })),
  });
  return [
    `made tablet ${config.tablet.name}, ${fleetId}, incarnation ${incarnation}, generation ${generation}`,
    "start the registry; former registries of this fleet, and copies of them, must not run any more",
  ];
}

async function* changesOnce(plan: RebuildPlan, ready: () => Promise<void>): AsyncGenerator<StoredChange> {
  await ready();
  for (const table of ["hosts", "devices", "disks", "counters", "fleets"] as const)
    for (const document of plan[table]) {
      const { key, version = 1 } = storedSchema[table];
      yield { table, key: key(document as never), document, version, previous: null };
    }
}

/** Returns the fleet's id: the given one, or else the one that the agents obey. */
function fleetOf(answered: readonly Answered[], given: string): string {
  if (given !== "") return given;
  const obeyed = answered.flatMap(({ answer }) =>
    "claims" in answer ? answer.claims.registration.remembered.tabletId || [] : [],
  );
  const [fleetId, ...others] = new Set(obeyed);
  if (fleetId !== undefined && others.length === 0) return fleetId;
  const why =
    fleetId === undefined ? "no agent that answered obeys one" : `the agents obey ${[fleetId, ...others].join(", ")}`;
  const errors = answered.flatMap(({ hostId, answer }) =>
    "error" in answer ? `\nhost ${hostId}: ${answer.error}` : [],
  );
  throw new InvalidArgumentError(`the fleet is not known: ${why}; give its id with --fleet${errors.join("")}`);
}

/** Throws unless every agent was read and hears no registry. */
function requireComplete(answered: readonly Answered[]): void {
  const silent = answered.filter(({ answer }) => "error" in answer).map(({ hostId }) => hostId);
  if (silent.length > 0)
    throw new InvalidStateError(
      `nothing was changed: the agents of ${silent.join(", ")} were not read: start them; or take their lines out of the file, and disks with a part there are not rebuilt`,
    );
  const hearing = answered.flatMap(({ hostId, answer }) =>
    "claims" in answer && answer.untilSilentMs > 0 ? [{ hostId, ...answer }] : [],
  );
  if (hearing.length === 0) return;
  const waitMs = Math.max(...hearing.map(({ untilSilentMs }) => untilSilentMs));
  throw new InvalidStateError(
    `nothing was changed: the agents of ${hearing.map(({ hostId }) => hostId).join(", ")} hear a registry: stop every registry of the fleet, and try again in ${Math.ceil(waitMs / 1_000)} s`,
  );
}

/** Parses lines "HOST-ID ADDRESS:PORT"; empty lines and comments are skipped. */
export function parseAgents(text: string): readonly AskedAgent[] {
  const agents = new Map<string, AskedAgent>();
  for (const [index, line] of text.split("\n").entries()) {
    const words = (line.split("#")[0] ?? "").trim().split(/\s+/).filter(Boolean);
    if (words.length === 0) continue;
    const [host = "", address = "", ...rest] = words;
    const field = `line ${index + 1}`;
    if (rest.length > 0 || address === "") throw new InvalidArgumentError(`${field} is not "HOST-ID ADDRESS:PORT"`);
    const hostId = parseHostId(host, field);
    if (agents.has(hostId)) throw new InvalidArgumentError(`${field} has host ${hostId} a second time`);
    agents.set(hostId, { hostId, address: parseAddress(address, field) });
  }
  if (agents.size === 0) throw new InvalidArgumentError("the file names no agent");
  return [...agents.values()];
}

interface Arguments {
  readonly config: string;
  readonly fromAgents: string;
  /** Empty when not given. */
  readonly fleet: string;
  readonly yes: boolean;
  readonly replace: boolean;
}

function argumentsOf(args: readonly string[]): Arguments {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        config: { type: "string" },
        "from-agents": { type: "string" },
        fleet: { type: "string", default: "" },
        yes: { type: "boolean", default: false },
        replace: { type: "boolean", default: false },
      },
    });
    const { config, "from-agents": fromAgents, fleet, yes, replace } = values;
    if (!config || !fromAgents) throw new Error("--config and --from-agents are needed");
    return { config, fromAgents, fleet: fleet === "" ? "" : parseId("--fleet", fleet), yes, replace };
  } catch (error) {
    throw new InvalidArgumentError(`${messageOf(error)}\n${USAGE}`, { cause: error });
  }
}
