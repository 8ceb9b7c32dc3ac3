import { expect } from "chai";
import { formatHostPort, hostPortOf } from "./host-port.js";

describe("host:port", () => {
  for (const [text, host, port] of [
    ["127.0.0.1:7010", "127.0.0.1", 7010],
    ["registry-1.cell.example:65535", "registry-1.cell.example", 65_535],
    ["disk_registry:1", "disk_registry", 1],
    ["[::1]:7030", "::1", 7030],
    ["[::ffff:10.0.0.1]:7030", "::ffff:10.0.0.1", 7030],
  ] as const)
    it(`${text} -> ${host} and ${port}`, () => {
      expect(hostPortOf(text)).to.deep.equal({ host, port });
      expect(formatHostPort({ host, port })).to.equal(text);
    });

  for (const text of [
    "",
    "host",
    ":1",
    "host:",
    "host:0",
    "host:65536",
    "host:port",
    "host:1x",
    "::1:7030",
    "[::1]",
    "[registry]:1",
    "unix:///run/x:1",
    "tls://host:1",
    "user@host:1",
    "-host:1",
    "host.:1",
    "ho st:1",
    "host:1\n",
    `${"x".repeat(256)}:1`,
  ])
    it(`${JSON.stringify(text.slice(0, 20))} is refused`, () => {
      expect(hostPortOf(text)).to.equal(undefined);
    });
});
