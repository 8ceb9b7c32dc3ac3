import {
  type HealthCheckRequest,
  type HealthCheckResponse,
  HealthDefinition,
  type HealthListResponse,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from "@diskmesh/api/grpc-health";
import { NotFoundError } from "@diskmesh/domain";
import { Metadata, type Server, type sendUnaryData, type UntypedServiceImplementation } from "@grpc/grpc-js";
import { methodsOf } from "../call/definition.js";
import { statusOfError } from "../errors/status-of-error.js";

export const HEALTH_SERVICE = HealthDefinition.fullName;

/** Health entries of a process's alerts begin with this. */
export const ALERT_ENTRY = "alert.";

/** Returns the names of the alerts in a process's health. */
export function alertsIn(statuses: HealthListResponse["statuses"]): string[] {
  return Object.keys(statuses).flatMap((part) =>
    part.startsWith(ALERT_ENTRY) && statuses[part]?.status === "NOT_SERVING" ? [part.slice(ALERT_ENTRY.length)] : [],
  );
}

type Call = { readonly request: HealthCheckRequest };
type Watch = Call & {
  write(response: HealthCheckResponse): void;
  once(event: "cancelled", listener: () => void): void;
};

/** Undefined means unknown: not checked yet, or not checkable now. */
export type Healthy = boolean | undefined;

/** Trailer of a health answer with the reason why a part is not serving. */
const WHY_TRAILER = "diskmesh-why";
const MAX_WHY_LENGTH = 500;

/** gRPC health service. Reports the stored health of the server, under the empty name, and of its parts. */
export class Health {
  readonly #statuses = new Map<string, ServingStatus>();
  readonly #whys = new Map<string, string>();
  readonly #watches = new Set<Watch>();

  set(part: string, healthy: Healthy, why = ""): void {
    this.#whys.set(part, why);
    const status = statusOf(healthy);
    if (this.#statuses.get(part) === status) return;
    this.#statuses.set(part, status);
    for (const watch of this.#watches) if (watch.request.service === part) this.#tell(watch);
  }

  addToServer(server: Pick<Server, "addService">): void {
    const implementation: UntypedServiceImplementation = {
      check: ({ request }: Call, callback: sendUnaryData<HealthCheckResponse>) => {
        const status = this.#statuses.get(request.service);
        const unknown = new NotFoundError(`this process has no service named ${JSON.stringify(request.service)}`);
        if (status === undefined) callback(statusOfError(unknown, "none"));
        else callback(null, { status }, trailerOf(this.#whys.get(request.service)));
      },
      list: (_call: unknown, callback: sendUnaryData<HealthListResponse>) => {
        const statuses = Object.fromEntries([...this.#statuses].map(([part, status]) => [part, { status }]));
        callback(null, { statuses });
      },
      watch: ((watch: Watch) => {
        this.#watches.add(watch);
        watch.once("cancelled", () => this.#watches.delete(watch));
        this.#tell(watch);
      }) as never,
    };
    server.addService(Object.fromEntries(methodsOf(HealthDefinition)) as never, implementation);
  }

  #tell(watch: Watch): void {
    watch.write({ status: this.#statuses.get(watch.request.service) ?? ServingStatus.SERVICE_UNKNOWN });
  }
}

function statusOf(healthy: Healthy): ServingStatus {
  if (healthy === undefined) return ServingStatus.UNKNOWN;
  return healthy ? ServingStatus.SERVING : ServingStatus.NOT_SERVING;
}

/** Replaces all characters but printable ASCII, because a trailer can hold no others. */
function trailerOf(why: string | undefined): Metadata {
  const trailer = new Metadata();
  if (why) trailer.set(WHY_TRAILER, why.replace(/[^ -~]/g, "?").slice(0, MAX_WHY_LENGTH));
  return trailer;
}
