import { HealthDefinition } from "@diskmesh/api/grpc-health";
import { messageOf } from "@diskmesh/domain";
import { type Client, createClient, type TlsFiles } from "@diskmesh/rpc";
import { type Lifecycle, type Readiness, systemClock } from "@diskmesh/service";

const LOOK_INTERVAL_MS = 1_000;
/** Longer than a dispatcher that is busy takes to say so. */
const LOOK_TIMEOUT_MS = 5_000;

/** Asks after the dispatcher's health from time to time, until the scope ends; `isFenced` is whether it obeys this director. */
export async function watchDispatcher(
  scope: Lifecycle,
  options: { readonly address: string | readonly string[]; readonly tls: TlsFiles },
  readiness: Pick<Readiness, "met" | "missing">,
  isFenced: () => boolean,
): Promise<void> {
  const client = createClient(HealthDefinition, {
    ...options,
    serverRole: "cpi-dispatcher",
    defaultDeadlineMs: LOOK_TIMEOUT_MS,
  });
  const signal = scope.stopping;
  while (!signal.aborted) {
    const why = await whyMissing(client, isFenced, signal);
    if (signal.aborted) break;
    if (why === undefined) readiness.met("dispatcher");
    else readiness.missing("dispatcher", why);
    await systemClock.sleep(LOOK_INTERVAL_MS, signal).catch(() => {});
  }
  client.close();
}

async function whyMissing(
  client: Client<typeof HealthDefinition>,
  isFenced: () => boolean,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const { status } = await client.check({}, { signal });
    if (status !== "SERVING") return "it says that it does not serve";
    return isFenced() ? undefined : "it does not obey this director yet";
  } catch (error) {
    return messageOf(error);
  }
}
