import { expect } from "chai";
import { isToldOnceMore, type ServerUser, serverClusterFile, serverTlsFile, serverUsersFiles } from "./server-users.js";

const pin = (digit: string) => digit.repeat(64);

/** What names the keys, after what it said before. */
function tlsOf(pins: readonly string[], formerTls?: string): string {
  const user: ServerUser = { identity: { role: "disk-agent", name: "host-1" }, pins };
  return serverUsersFiles("/etc/nats", [user], [], formerTls).get(serverTlsFile("/etc/nats")) ?? "";
}

describe("the keys that nats-server is told of", () => {
  const [a, b, c] = [pin("a"), pin("b"), pin("c")];
  const cases: readonly [string, readonly (readonly string[])[], boolean][] = [
    ["the first ones", [[a]], false],
    ["the same ones", [[a], [a]], false],
    ["one more", [[a], [a, b]], false],
    ["one less", [[a, b], [a]], true],
    ["one in place of another", [[a], [b]], true],
    ["one less, and the same once more", [[a, b], [a], [a]], false],
    ["one less, and one more then", [[a, b], [a], [a, c]], false],
    ["one less, and another one less then", [[a, b, c], [a, b], [a]], true],
  ];
  for (const [what, told, expected] of cases)
    it(`${what} -> ${expected ? "told once more" : "told"}`, () => {
      const tls = told.reduce<string | undefined>((former, pins) => tlsOf(pins, former), undefined) ?? "";
      expect(isToldOnceMore(tls)).to.equal(expected);
      // Otherwise nothing is added to them.
      if (!expected) expect(tls).to.equal(tlsOf(told.at(-1) ?? []));
      for (const one of told.at(-1) ?? []) expect(tls).to.contain(one);
    });

  it("nobody -> never an empty list, which lets in everybody; somebody then -> nothing is left of that", () => {
    const nobody = tlsOf([]);
    for (const text of [nobody, serverClusterFile("/etc/nats", [])[1]])
      expect(text).to.match(/pinned_certs: \[\n {2}"f{64}"\n\]/);
    expect(isToldOnceMore(nobody)).to.equal(false);
    expect(tlsOf([a], nobody)).to.equal(tlsOf([a]));
    expect(isToldOnceMore(tlsOf([], tlsOf([a])))).to.equal(true);
  });
});
