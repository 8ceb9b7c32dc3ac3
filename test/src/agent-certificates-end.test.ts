import { AgentCertificateState } from "@diskmesh/api/director";
import { eventually, freePort, leaveToVerify, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { metricsAt } from "./mesh/plan.js";
import { AlertWatch } from "./metrics/alert-watch.js";
import { FAULT_ALERTS } from "./metrics/fault-alerts.js";
import { done, ProcessVms, vmsManifest } from "./process-vms/process-vms.js";

/** Validity in days: long enough to create a VM and renew its certificate, even on a busy machine. */
const VALID_DAYS = 60 / 86_400;
const PATIENCE = { timeoutMs: 180_000 };

describe("an agent that sleeps until its certificate ends", function () {
  this.timeout(600_000);

  it("is shown by `diskmesh agents` with its days left, by a metric and by an alert", async function () {
    leaveToVerify(this);
    skipWithout(this, "promtool");
    const port = await freePort();
    await using vms = await ProcessVms.start({ director: metricsAt(port) });
    await vms.restartWithValidDays(VALID_DAYS);
    const operator = vms.mesh.clients;
    await vms.prepare();
    await done(operator.deployments.deploy({ manifest: vmsManifest(1), wait: true }));
    const alerts = new AlertWatch([{ job: "diskmesh-director", port }]);
    await alerts.fires([]);

    const [{ vmCid, agentId } = { vmCid: "", agentId: "" }] = (
      await operator.deployments.listInstances({ deployment: "vms" })
    ).instances;
    vms.signalVm(vmCid, "SIGSTOP");
    await eventually(async () => {
      const { code, out, err } = await vms.mesh.typed("agents", "--deployment", "vms", "--json");
      expect(code, err).to.equal(0);
      const [agent] = JSON.parse(out) as { agentId: string; state: string; expireTime: string }[];
      expect(agent).to.include({ agentId, vmCid, state: AgentCertificateState.ENDED });
      expect(Date.parse(agent?.expireTime ?? "")).to.be.below(Date.now());
    }, PATIENCE);
    expect((await vms.mesh.typed("agents")).out).to.match(new RegExp(`${agentId} .* ENDED .* 0\\.0\\n`));
    const told = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    expect(told).to.match(/^diskmesh_agent_certificates_left_seconds -/m);
    await alerts.fires(FAULT_ALERTS["agent that sleeps until its certificate ends"]);
    vms.signalVm(vmCid, "SIGCONT");
  });
});
