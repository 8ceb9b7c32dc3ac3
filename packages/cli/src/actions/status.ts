import type { HealthListResponse } from "@diskmesh/api/grpc-health";
import { messageOf } from "@diskmesh/domain";
import type { Action } from "../action.js";
import { EndedWith, EXIT_CODES } from "../exit-codes.js";
import { type Mesh, SERVICES, type ServiceName } from "../mesh.js";

interface ProcessStatus {
  readonly service: ServiceName;
  readonly address: string;
  readonly state: "serves" | "stands by" | "not serving" | "does not answer";
  readonly message: string;
}

const ASK_DEADLINE_MS = 2_000;

export const status: Action = {
  usage: "status",
  summary: "which services serve, each process of theirs",
  example: "diskmesh status",
  run: async ({ mesh, output }) => {
    const asked = SERVICES.flatMap((service) => mesh.addresses(service).map((address) => ({ service, address })));
    const found = await Promise.all(asked.map(({ service, address }) => statusOf(mesh, service, address)));
    output.list(
      {
        service: ({ service }) => service,
        address: ({ address }) => address,
        state: ({ state }) => state,
        message: ({ message }) => message,
      },
      found,
      "no services",
    );
    const serves = (service: ServiceName) =>
      found.some((process) => process.service === service && process.state === "serves");
    if (!SERVICES.every(serves)) throw new EndedWith(EXIT_CODES.unavailable);
  },
};

async function statusOf(mesh: Mesh, service: ServiceName, address: string): Promise<ProcessStatus> {
  try {
    const { statuses } = await mesh.health(service, address).list({}, { deadlineMs: ASK_DEADLINE_MS });
    return { service, address, ...stateOf(statuses) };
  } catch (error) {
    return { service, address, state: "does not answer", message: messageOf(error) };
  }
}

function stateOf(statuses: HealthListResponse["statuses"]): Pick<ProcessStatus, "state" | "message"> {
  const isServing = (part: string): boolean => statuses[part]?.status === "SERVING";
  if (isServing("")) return { state: "serves", message: "" };
  if (isServing("standby")) return { state: "stands by", message: "" };
  const lacks = Object.keys(statuses).filter(
    (part) => /^[a-z]+$/.test(part) && statuses[part]?.status === "NOT_SERVING",
  );
  const parts = lacks.filter((part) => part !== "ready" && part !== "standby");
  return { state: "not serving", message: parts.length === 0 ? "" : `for want of ${parts.join(", ")}` };
}
