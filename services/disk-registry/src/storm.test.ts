import { AgentRegistrationServiceDefinition } from "@diskmesh/api/internal";
import { Health } from "@diskmesh/api/registry";
import { createClient } from "@diskmesh/rpc";
import { leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { CountingRegistry } from "./testing/counting-registry.js";
import { aDevice, aHost, hostId } from "./testing/fleet-fixture.js";

const AGENTS = 100;
const DEVICES_PER_AGENT = 16;
/** Equals a real agent's registration timeout. */
const REGISTER_TIMEOUT_MS = 60_000;

const remembered = {
  tabletId: "tablet-1",
  incarnation: "life-1",
  highestTabletGeneration: 0,
  highestDeviceGeneration: 0,
  highestSessionNumber: 0,
};

const hostIds = Array.from({ length: AGENTS }, (_, index) => `storm-${index}`);
const hosts = hostIds.map((id) => aHost(id));
const devicesOf = (id: string) =>
  Array.from({ length: DEVICES_PER_AGENT }, (_, index) => aDevice(`${id}-d${index}`, { hostId: hostId(id) }));

describe("simultaneous registrations", () => {
  it("of all agents do not time out, make all hosts ONLINE, and share commits", async function () {
    leaveToVerify(this);
    await using registry = await CountingRegistry.start(hostIds, { hosts, devices: hostIds.flatMap(devicesOf) });
    const { certificates, commits, context, address } = registry;
    const clients = hostIds.map((id) => {
      const tls = certificates.files(`disk-agent-${id}`);
      const options = { address, tls, serverRole: "disk-registry", defaultDeadlineMs: REGISTER_TIMEOUT_MS } as const;
      return createClient(AgentRegistrationServiceDefinition, options);
    });
    try {
      // Connections are open before the registrations begin.
      await Promise.all(
        clients.map((client, index) =>
          client.heartbeat({
            hostId: hostIds[index] as string,
            bootId: `${hostIds[index]}-boot-1`,
            ...remembered,
          }),
        ),
      );
      commits.length = 0;
      const requests = hostIds.map(registrationOf);
      const answers = await Promise.all(clients.map((client, index) => client.registerAgent(requests[index] ?? {})));
      expect(new Set(answers.map((answer) => answer.allowedDevices.length))).to.deep.equal(
        new Set([DEVICES_PER_AGENT]),
      );
      expect(answers.flatMap((answer) => answer.unknownDevices)).to.deep.equal([]);
      const found = await context.tablet.read((tables) => [...tables.hosts.entries()]);
      expect(found.map((host) => `${host.bootId} ${host.state}`)).to.have.members(
        hostIds.map((id) => `${id}-boot-2 ONLINE`),
      );
      // Each registration is stored. The number of registrations per commit depends on the machine, but many must share
      // one.
      expect(commits.length)
        .to.be.at.least(1)
        .and.at.most(AGENTS / 2);
      expect(commits.flat().filter((change) => change.table === "devices")).to.deep.equal([]);
    } finally {
      for (const client of clients) client.close();
    }
  });
});

function registrationOf(id: string) {
  const devices = devicesOf(id).map(
    ({ deviceId, path, offsetBytes, sizeBytes, blockSizeBytes, serialNumber, pool }) => ({
      ...{ deviceId, path, offsetBytes, sizeBytes, blockSizeBytes, serialNumber, pool },
      health: Health.ONLINE,
      attached: true,
    }),
  );
  const { az, rack, address } = aHost(id);
  return { hostId: id, address, az, rack, bootId: `${id}-boot-2`, devices, ...remembered };
}
