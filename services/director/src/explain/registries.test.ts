import { SubjectKind } from "@diskmesh/api/common";
import { HostState } from "@diskmesh/api/registry";
import { CancelledError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { freePort, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { TestDirector } from "../testing/test-director.js";
import { Registries, type RegistryClients } from "./registries.js";

/** Returns registry clients that call these functions instead of a registry. */
function clients(listHosts: () => Promise<unknown>, explain: (signal: AbortSignal) => Promise<unknown> = listHosts) {
  return {
    registry: { listHosts },
    admin: { explain: (_: unknown, { signal }: { readonly signal: AbortSignal }) => explain(signal) },
  } as unknown as RegistryClients;
}

describe("the disk registries of a director", () => {
  it("one of two does not answer -> the hosts of the other, and the reason why there may be more", async () => {
    const one = clients(async () => ({ hosts: [{ hostId: "h1" }] }));
    const other = clients(() => Promise.reject(new UnavailableError("nobody listens")));
    const found = await new Registries([one, other]).hostsOf("vm-1", { signal: new AbortController().signal });
    expect(found).to.deep.equal({ hostIds: ["h1"], isNowhere: false, unanswered: ["nobody listens"] });
  });

  const lost = (hosts: object[], disk: object) => {
    const registry = {
      listHosts: async () => ({ hosts }),
      getDisk: async () => ({ disk }),
    };
    return new Registries([{ registry } as unknown as RegistryClients]).whyLost("vm-1", "disk-1", {});
  };
  const host = (state: HostState) => ({ hostId: "h1", assignment: { vmCid: "vm-1" }, state });
  const LOST: [string, object[], object, string | undefined][] = [
    ["ONLINE", [host(HostState.ONLINE)], {}, undefined],
    ["WARNING", [host(HostState.WARNING)], {}, undefined],
    ["UNAVAILABLE", [host(HostState.UNAVAILABLE)], {}, "host h1 is UNAVAILABLE"],
    ["DEAD", [host(HostState.DEAD)], {}, "host h1 is DEAD"],
    ["fenced", [host(HostState.ONLINE)], { fence: { hostId: "h1" } }, "disk disk-1 is fenced from host h1"],
    ["not the host that was fenced", [host(HostState.ONLINE)], { fence: { hostId: "h2" } }, undefined],
    ["unknown, because the VM is no host", [], {}, undefined],
  ];
  for (const [what, hosts, disk, why] of LOST)
    it(`a VM's host is ${what} -> ${why ?? "not lost"}`, async () => expect(await lost(hosts, disk)).to.equal(why));

  it("a registry does not answer, or does not know the disk -> no host is known to be lost", async () => {
    const fail = () => Promise.reject(new UnavailableError("nobody listens"));
    const answer = async () => ({ hosts: [host(HostState.DEAD)] });
    for (const registry of [
      { listHosts: fail, getDisk: fail },
      { listHosts: answer, getDisk: fail },
    ]) {
      const silent = { registry } as unknown as RegistryClients;
      expect(await new Registries([silent]).whyLost("vm-1", "disk-1", {})).to.equal(undefined);
    }
  });

  it("the caller disconnects during the first request -> the second registry is not asked", async () => {
    const gone = new AbortController();
    let asked = 0;
    const one = clients(
      async () => ({}),
      async (signal) => {
        asked++;
        gone.abort(new CancelledError("gone"));
        signal.throwIfAborted();
      },
    );
    const registries = new Registries([one, one]);
    await rejection(registries.explain({ kind: SubjectKind.HOST, name: "h1" }, gone), CancelledError);
    expect(asked).to.equal(1);
  });

  it("explain of a VM whose registry does not answer -> reports the error", async function () {
    leaveToVerify(this);
    const director = await TestDirector.start({
      nodes: { registries: [{ address: `127.0.0.1:${await freePort()}` }] },
    });
    try {
      const [instanceId] = await director.deploy("web", 1);
      const causes = await director.why(SubjectKind.VM, instanceId ?? "");
      expect(causes.map(({ subject, reason }) => [subject?.kind, reason])).to.deep.include([
        SubjectKind.VM,
        "REGISTRY_SILENT",
      ]);
    } finally {
      await director.stop();
    }
  });
});
