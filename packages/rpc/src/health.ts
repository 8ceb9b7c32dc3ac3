import {
  type HealthCheckRequest,
  type HealthCheckResponse,
  HealthDefinition,
  type HealthListResponse,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from "@diskmesh/api/grpc-health";
import { NotFoundError } from "@diskmesh/domain";
import type { Server, sendUnaryData, UntypedServiceImplementation } from "@grpc/grpc-js";
import { methodsOf } from "./definition.js";
import { statusOfError } from "./status-of-error.js";

export const HEALTH_SERVICE = HealthDefinition.fullName;

type Call = { readonly request: HealthCheckRequest };
type Watch = Call & {
  write(response: HealthCheckResponse): void;
  once(event: "cancelled", listener: () => void): void;
};

/** gRPC's health service: says of the server, which has the empty name, and of its parts what it was told of them. */
export class Health {
  readonly #statuses = new Map<string, ServingStatus>();
  readonly #watches = new Set<Watch>();

  set(part: string, serving: boolean): void {
    this.#statuses.set(part, serving ? ServingStatus.SERVING : ServingStatus.NOT_SERVING);
    for (const watch of this.#watches) if (watch.request.service === part) this.#tell(watch);
  }

  addToServer(server: Pick<Server, "addService">): void {
    const implementation: UntypedServiceImplementation = {
      check: ({ request }: Call, callback: sendUnaryData<HealthCheckResponse>) => {
        const status = this.#statuses.get(request.service);
        const unknown = new NotFoundError(`this process has no part ${JSON.stringify(request.service)}`);
        if (status === undefined) callback(statusOfError(unknown, "none"));
        else callback(null, { status });
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
