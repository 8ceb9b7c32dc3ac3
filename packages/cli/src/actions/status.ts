import { setTimeout as delay } from "node:timers/promises";
import type { HealthListResponse } from "@diskmesh/api/grpc-health";
import { alertsIn } from "@diskmesh/rpc";
import { type Mesh, SERVICES, type ServiceName } from "../mesh/mesh.js";
import { failureText } from "../mesh/peer-clock.js";
import { EndedWith, EXIT_CODES } from "../output/exit-codes.js";
import type { Columns } from "../output/output.js";
import { countOf } from "../output/values.js";
import { type Action, textOption } from "./action.js";
import { listAttention, whatNeedsAttention } from "./attention.js";

interface ProcessStatus {
  readonly service: ServiceName;
  readonly address: string;
  readonly state: "serves" | "stands by" | "not serving" | "does not answer";
  readonly message: string;
}

const COLUMNS: Columns<ProcessStatus> = {
  service: ({ service }) => service,
  address: ({ address }) => address,
  state: ({ state }) => state,
  message: ({ message }) => message,
};

const ASK_DEADLINE_MS = 2_000;
const PAUSE_MS = 500;
const MAX_WAIT_SECONDS = 86_400;

export const status: Action = {
  usage: "status",
  summary: "show whether each process of each service serves, and what needs attention",
  options: [
    [
      "--wait <seconds>",
      "only wait, at most this long, until each process serves or stands by, and one of each service serves",
    ],
  ],
  example: "diskmesh status --wait 60",
  run: async ({ mesh, output, options, signal }) => {
    const wait = textOption(options, "wait");
    const waits = wait !== "";
    const untilMs = performance.now() + (waits ? countOf("--wait", wait, MAX_WAIT_SECONDS) * 1_000 : 0);
    const isWell = (found: readonly ProcessStatus[]) =>
      allServe(found) && (!waits || found.every(({ state }) => isUp(state)));
    const asked = SERVICES.flatMap((service) => mesh.addresses(service).map((address) => ({ service, address })));
    const attending = waits ? Promise.resolve([]) : whatNeedsAttention(mesh);
    let found = await statusesOf(mesh, asked);
    while (!isWell(found) && performance.now() < untilMs) {
      await delay(PAUSE_MS, undefined, { signal });
      found = await statusesOf(mesh, asked);
    }
    const attention = await attending;
    if (output.isData) output.answer({ processes: found, attention }, "");
    else {
      output.list(COLUMNS, found, "no services");
      if (attention.length > 0) listAttention(output, attention);
    }
    if (!isWell(found)) throw new EndedWith(EXIT_CODES.unavailable);
  },
};

const isUp = (state: ProcessStatus["state"]): boolean => state === "serves" || state === "stands by";

function allServe(found: readonly ProcessStatus[]): boolean {
  const serves = (service: ServiceName) =>
    found.some((process) => process.service === service && process.state === "serves");
  return SERVICES.every(serves);
}

function statusesOf(
  mesh: Mesh,
  asked: readonly { readonly service: ServiceName; readonly address: string }[],
): Promise<ProcessStatus[]> {
  return Promise.all(asked.map(({ service, address }) => statusOf(mesh, service, address)));
}

async function statusOf(mesh: Mesh, service: ServiceName, address: string): Promise<ProcessStatus> {
  try {
    const { statuses } = await mesh.health(service, address).list({}, { deadlineMs: ASK_DEADLINE_MS });
    return { service, address, ...stateOf(statuses) };
  } catch (error) {
    return { service, address, state: "does not answer", message: await failureText(address, error) };
  }
}

function stateOf(statuses: HealthListResponse["statuses"]): Pick<ProcessStatus, "state" | "message"> {
  const isServing = (part: string): boolean => statuses[part]?.status === "SERVING";
  const alerts = alertsIn(statuses);
  const warns = alerts.length === 0 ? "" : `warns of ${alerts.join(", ")}`;
  if (isServing("")) return { state: "serves", message: warns };
  if (isServing("standby")) return { state: "stands by", message: warns };
  const lacks = Object.keys(statuses).filter(
    (part) => /^[a-z]+$/.test(part) && statuses[part]?.status === "NOT_SERVING",
  );
  const parts = lacks.filter((part) => part !== "ready" && part !== "standby");
  const lacked = parts.length === 0 ? "" : `lacks ${parts.join(", ")}`;
  return { state: "not serving", message: [lacked, warns].filter(Boolean).join("; ") };
}
