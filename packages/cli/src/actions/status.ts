import { messageOf } from "@diskmesh/domain";
import type { Action } from "../action.js";
import { EndedWith, EXIT_CODES } from "../exit-codes.js";
import { type Mesh, SERVICES, type ServiceName } from "../mesh.js";

interface ServiceStatus {
  readonly service: ServiceName;
  readonly address: string;
  readonly state: "serves" | "not serving" | "does not answer";
  readonly message: string;
}

const ASK_DEADLINE_MS = 2_000;

export const status: Action = {
  usage: "status",
  summary: "which services serve",
  example: "diskmesh status",
  run: async ({ mesh, output }) => {
    const found = await Promise.all(SERVICES.map((service) => statusOf(mesh, service)));
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
    if (found.some(({ state }) => state !== "serves")) throw new EndedWith(EXIT_CODES.unavailable);
  },
};

async function statusOf(mesh: Mesh, service: ServiceName): Promise<ServiceStatus> {
  const address = mesh.addresses(service).join(", ");
  try {
    const { status: health } = await mesh.health(service).check({}, { deadlineMs: ASK_DEADLINE_MS });
    return { service, address, state: health === "SERVING" ? "serves" : "not serving", message: "" };
  } catch (error) {
    return { service, address, state: "does not answer", message: messageOf(error) };
  }
}
