import { readdirSync } from "node:fs";
import { MemoryCpi } from "@diskmesh/cpi/testing";
import { eventually, leaveToVerify, type TestCertificates, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { OfferedCpi } from "./cpis/cpi-set.js";
import { openDescriptors, processesOf } from "./testing/processes.js";
import { contextOf, TestDispatcher } from "./testing/test-dispatcher.js";

const CALLS = 1_000;
const AT_ONCE = 16;

/** Misbehaves in the way that the id in the request names. */
const SCRIPT = `
read -r request
ok() { echo '{"result":true,"error":null,"log":""}'; }
case "$request" in
'{"method":"info"'*) echo '{"result":{"api_version":2},"error":null,"log":""}' ;;
*garbage*) echo garbage ;;
*crash*) kill -9 $$ ;;
*orphans*) sleep 300 & (sleep 300 & sleep 300) & ok ;;
*endless*) exec yes ;;
*noise*) yes noise | head -n 20000 >&2; ok ;;
*deaf*) exec 0<&- 1>&- 2>&-; exec sleep 300 ;;
*hangs*) sleep 300 & exec sleep 300 ;;
*refuses*) echo '{"result":null,"error":{"type":"Bosh::Clouds::CloudError","message":"no","ok_to_retry":false},"log":""}' ;;
*) ok ;;
esac`;

const MISBEHAVIOURS = ["garbage", "crash", "orphans", "endless", "noise", "deaf", "hangs", "refuses"];
/** Misbehaviours that end only by cancellation. */
const MUST_BE_CANCELLED = ["deaf", "hangs"];
const SUCCEEDS_ANYWAY = ["orphans", "noise"];

describe("a thousand calls of CPI executables", () => {
  let certificates: TestCertificates;

  before(async function () {
    leaveToVerify(this);
    certificates = await testCertificates();
  });

  it("of which a third misbehave, lose no answer and leave no process, descriptor or file", async () => {
    const own = new OfferedCpi("own", "memory", new MemoryCpi());
    const executables = { maxConcurrentCalls: AT_ONCE };
    const limits = { maxAnswerBytes: 100_000 };
    const dispatcher = await new TestDispatcher(certificates, [own], { executables, limits }).start();
    const director = dispatcher.client("director");
    await dispatcher.setCpis([dispatcher.scriptCpi("a", SCRIPT)]);
    const context = contextOf(1, { cpi: "a", cpiConfigVersion: "v", logId: "log" });
    /** Resolves with undefined after a success, otherwise with a text about the failure. */
    const call = async (vmCid: string): Promise<string | undefined> => {
      const controller = new AbortController();
      const kind = vmCid.split("-")[0] as string;
      const timer = MUST_BE_CANCELLED.includes(kind) ? setTimeout(() => controller.abort(), 100) : undefined;
      try {
        const { exists } = await director.hasVm({ context, vmCid }, { signal: controller.signal, deadlineMs: 200_000 });
        return exists ? undefined : "it says that there is no such VM";
      } catch (error) {
        return (error as Error).message;
      } finally {
        clearTimeout(timer);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => call(`warm-${index}`)));
    const descriptorsBefore = openDescriptors();

    const failures = new Map<string, string | undefined>();
    let next = 0;
    const caller = async () => {
      while (next < CALLS) {
        const index = next++;
        const kind = index % 3 === 0 ? MISBEHAVIOURS[(index / 3) % MISBEHAVIOURS.length] : "well";
        const vmCid = `${kind}-${index}`;
        failures.set(vmCid, await call(vmCid));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, caller));

    expect(failures.size).to.equal(CALLS);
    for (const [vmCid, failure] of failures) {
      const kind = vmCid.split("-")[0] as string;
      if (kind === "well" || SUCCEEDS_ANYWAY.includes(kind))
        expect(failure, `${vmCid}: ${failure}`).to.equal(undefined);
      else expect(failure, vmCid).to.be.a("string");
    }
    // The caller of a cancelled call is answered before its processes are killed, so they may exist for a moment.
    await dispatcher.client("director").fence({ directorId: "d1", directorGeneration: 2 });
    await eventually(async () => {
      expect(await processesOf(dispatcher.runFolder), "processes").to.deep.equal([]);
      expect(readdirSync(dispatcher.runFolder), "files").to.deep.equal([]);
      // The client of the fence call has a socket, and grpc-js may open or close a descriptor of its own.
      expect(openDescriptors(), "descriptors").to.be.at.most(descriptorsBefore + 2);
    });
    await dispatcher.close();
  });
});
