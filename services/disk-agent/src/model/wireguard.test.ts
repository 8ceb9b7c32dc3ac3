import type { DeviceId, HostId } from "@diskmesh/domain";
import { expect } from "chai";
import { emptyMemory, type RememberedSession } from "./memory.js";
import { dividePeers, filterRules, holdersOf, isPublicKey } from "./wireguard.js";

const KEYS = ["A", "E", "I"].map((last) => `${"a".repeat(42)}${last}=`);
const [FIRST, SECOND, THIRD] = KEYS;

describe("peers of WireGuard", () => {
  it("stay while their address is wanted, and are strays otherwise, also without an address or with a second one", () => {
    const shown = `peers of dm-wg-0\n${FIRST}\tfd64::1/128\n${SECOND}\t(none)\n${THIRD}\tfd64::1/128 fd64::2/128\n`;
    expect(dividePeers(shown, new Set(["fd64::1", "fd64::2"]))).to.deep.equal({
      wanted: [FIRST],
      strays: [SECOND, THIRD],
    });
    expect(dividePeers(shown, new Set())).to.deep.equal({ wanted: [], strays: [FIRST, SECOND, THIRD] });
  });

  it("are the holders of sessions on this host's devices that are open and served", () => {
    const session = (number: number, change: Partial<RememberedSession> = {}): RememberedSession => ({
      ...{ number, purpose: "disk", diskId: "disk-1", holderHostId: `host-${number}`, ended: false },
      ...{ offsetBytes: 0, sizeBytes: 4096, ...change },
    });
    const sessions = [
      session(2),
      session(3, { ended: true }),
      session(4, { holderHostId: "" }),
      session(5, { holderHostId: "host-1" }),
      session(6),
    ];
    const memory = emptyMemory("host-1" as HostId);
    const devices = new Map([["a" as DeviceId, { sessions }]]) as unknown as typeof memory.devices;
    expect(holdersOf({ ...memory, devices }, (number) => number !== 6)).to.deep.equal(["host-2"]);
  });

  for (const text of ["", FIRST?.slice(1), `${"a".repeat(43)}=`, `${FIRST}\n`, `${"a".repeat(42)} =`])
    it(`have no key of another form: ${JSON.stringify(text)}`, () => {
      expect(isPublicKey(FIRST ?? "")).to.equal(true);
      expect(isPublicKey(text ?? "")).to.equal(false);
    });
});

describe("rules of WireGuard", () => {
  it("replace those of the table at once, and leave only the port of NVMe/TCP to peers", () => {
    const rules = filterRules({ name: "dm-wg-0", address: "fd64::1", nvmePort: 4420 });
    expect(rules).to.match(/^table ip6 dm-wg-0\ndelete table ip6 dm-wg-0\ntable ip6 dm-wg-0 \{\n/);
    expect(rules).to.contain('ip6 daddr fd64::1 iifname != "lo" iifname != "dm-wg-0" drop');
    expect(rules).to.contain("tcp dport != 4420 drop");
    expect(rules).to.contain("ip6 daddr fd64:6973:6b6d::/48 meta skuid != 0 drop");
  });
});
