import { type Cause, type ExplainResponse, SubjectKind } from "@diskmesh/api/common";
import type { Cpi } from "@diskmesh/api/cpi";
import { knownAlert } from "@diskmesh/domain";
import { alertsIn, allPages } from "@diskmesh/rpc";
import type { Mesh, ServiceName } from "./mesh.js";
import { failureText, isOfClocks } from "./peer-clock.js";

const ASK_DEADLINE_MS = 2_000;

/** Returns the missing dependencies of all processes of the service. Causes of processes that answered come first. */
export async function explainService(mesh: Mesh, service: ServiceName): Promise<ExplainResponse> {
  const addresses = mesh.addresses(service);
  const causesByProcess = await Promise.all(addresses.map((address) => askProcess(mesh, service, address)));
  const isServed = causesByProcess.some((causes) => causes.every(({ reason }) => reason === ALERT));
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
/** Reason of a cause that keeps a process from nothing. */
const ALERT = "ALERT";

async function dispatcherCauses(mesh: Mesh, address: string): Promise<Cause[]> {
  const health = mesh.health("cpi-dispatcher", address).list({}, { deadlineMs: ASK_DEADLINE_MS });
  const [cpis, { statuses }] = await Promise.all([cpisOf(mesh, address), health]);
  const subject = { kind: SubjectKind.SERVICE, name: "cpi-dispatcher" };
  const alerts = alertsIn(statuses).map((name): Cause => {
    const { text, cure } = knownAlert(name);
    const [what, command] = cure;
    return {
      ...{ subject, reason: ALERT, message: `the cpi-dispatcher warns of ${name}: ${text}; its log says more` },
      ...{ startTime: undefined, nextAttemptTime: undefined, cures: [{ what, command }], becauseOf: [] },
    };
  });
  return [...cpis.flatMap(unusable), ...alerts];
}

function cpisOf(mesh: Mesh, address: string): Promise<Cpi[]> {
  return allPages(async (pageToken) => {
    const page = await mesh.cpisAt(address).listCpis({ pageToken }, { deadlineMs: ASK_DEADLINE_MS });
    return { items: page.cpis, nextPageToken: page.nextPageToken };
  });
}

async function askProcess(mesh: Mesh, service: ServiceName, address: string): Promise<readonly Cause[]> {
  const subject = { kind: SubjectKind.SERVICE, name: service };
  const call = { deadlineMs: ASK_DEADLINE_MS };
  try {
    const { causes } =
      service === "cpi-dispatcher"
        ? { causes: await dispatcherCauses(mesh, address) }
        : await mesh.adminAt(service, address).explain({ subject }, call);
    return causes.map((cause) => ({ ...cause, message: `${address}: ${cause.message}` }));
  } catch (error) {
    return [await silenceOf(service, address, error)];
  }
}

/** Returns the cause of a process that does not answer, by the error of the call. */
export async function silenceOf(service: ServiceName, address: string, error: unknown): Promise<Cause> {
  const text = await failureText(address, error);
  const what = isOfClocks(text)
    ? "set the clock that is wrong; if both are right, renew the certificate: diskmesh pki renew"
    : "start it, restart it if it hangs, or, if the message names them, replace its certificate or raise its LimitNOFILE; its last log lines say why";
  return {
    ...{ subject: { kind: SubjectKind.SERVICE, name: service }, reason: NO_ANSWER },
    message: `${address}: the ${service} there does not answer: ${text}`,
    ...{ startTime: undefined, nextAttemptTime: undefined, cures: [{ what, command: "" }], becauseOf: [] },
  };
}

/** Explains a CPI of a dispatcher that cannot be called. The dispatcher itself keeps no other state to explain. */
function unusable({ name, apiVersion, lastError }: Cpi): Cause[] {
  if (apiVersion !== 0) return [];
  const subject = { kind: SubjectKind.CPI, name };
  const cures = [
    { what: "repair what the message names, on the dispatcher's machine or in the cpi config", command: "" },
  ];
  const message = `CPI ${name} cannot be called: ${lastError}`;
  return [
    {
      subject,
      reason: "CPI_UNUSABLE",
      message,
      startTime: undefined,
      nextAttemptTime: undefined,
      cures,
      becauseOf: [],
    },
  ];
}
