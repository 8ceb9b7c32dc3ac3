import { type Cause, type ExplainResponse, SubjectKind } from "@diskmesh/api/common";
import { messageOf } from "@diskmesh/domain";
import type { Mesh, ServiceName } from "./mesh.js";

/** Services whose processes answer the `explain` method. */
export const EXPLAINED = ["disk-registry", "director"] as const satisfies readonly ServiceName[];

const ASK_DEADLINE_MS = 2_000;

/** Returns the missing dependencies of all processes of the service. Causes of processes that answered come first. */
export async function explainService(mesh: Mesh, service: (typeof EXPLAINED)[number]): Promise<ExplainResponse> {
  const addresses = mesh.addresses(service);
  const causesByProcess = await Promise.all(addresses.map((address) => askProcess(mesh, service, address)));
  const isServed = causesByProcess.some((causes) => causes.length === 0);
  const summary = isServed
    ? `${service} is served`
    : `none of the processes of ${service} (${addresses.join(", ")}) does all its work`;
  const isSilent = ({ reason }: Cause) => reason === NO_ANSWER;
  const causes = causesByProcess.flat();
  return {
    summary,
    causes: [...causes.filter((cause) => !isSilent(cause)), ...causes.filter(isSilent)],
  };
}

const NO_ANSWER = "NO_ANSWER";

async function askProcess(mesh: Mesh, service: ServiceName, address: string): Promise<readonly Cause[]> {
  const subject = { kind: SubjectKind.SERVICE, name: service };
  try {
    const { causes } = await mesh.adminAt(service, address).explain({ subject }, { deadlineMs: ASK_DEADLINE_MS });
    return causes.map((cause) => ({ ...cause, message: `${address}: ${cause.message}` }));
  } catch (error) {
    const message = `${address}: the ${service} there does not answer: ${messageOf(error)}`;
    const cures = [{ what: "start it again; its last log line says why it ended", command: "" }];
    return [{ subject, reason: NO_ANSWER, message, since: undefined, nextTryAt: undefined, cures, becauseOf: [] }];
  }
}
