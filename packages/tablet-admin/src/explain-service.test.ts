import { VERSION } from "@diskmesh/domain";
import { expect } from "chai";
import { type ProcessReport, serviceCauses, serviceSummary } from "./explain-service.js";

const SUBJECT = { kind: "SERVICE", name: "director" } as const;

describe("explaining a process", () => {
  const lacks = (text: string, fields: Partial<ProcessReport> = {}): ProcessReport => ({
    serving: false,
    standsByFor: undefined,
    takesOverAtMs: undefined,
    needs: new Map(
      text
        .split(" ")
        .filter(Boolean)
        .map((need) => [need, { met: false, why: `no ${need}`, sinceMs: 5 }]),
    ),
    ...fields,
  });
  const all = new Map(["leader", "database"].map((need) => [need, { met: true, why: "", sinceMs: 5 }]));
  const rows: readonly [what: string, report: ProcessReport, reasons: string, says: RegExp][] = [
    ["all needs are met", lacks("", { needs: all }), "", /^$/],
    ["unchecked need", lacks("", { needs: new Map([["nats", { met: undefined, why: "", sinceMs: 5 }]]) }), "", /^$/],
    [
      "no database, and therefore no leadership",
      lacks("leader database"),
      "DATABASE_AWAY",
      /the director that was asked lacks its database: no database$/,
    ],
    ["no leadership", lacks("leader"), "DOES_NOT_LEAD", /does not lead: no leader$/],
    [
      "standby",
      lacks("leader", { standsByFor: "h:1", takesOverAtMs: 9 }),
      "STANDS_BY",
      /is a standby: the process at h:1 has the lease/,
    ],
    ["failed driver", lacks("drivers"), "DRIVER_FAILED", /the director that was asked lacks its drivers: no drivers$/],
    [
      "alert",
      lacks("", { serving: true, alerts: new Map([["memory", { why: "raise the limit", sinceMs: 5 }]]) }),
      "ALERT",
      /^the director that was asked warns: raise the limit$/,
    ],
    [
      "several unmet needs",
      lacks("nats dispatcher certificate"),
      "CERTIFICATE,NATS_AWAY,DISPATCHER_AWAY",
      /no certificate.*no nats.*no dispatcher/,
    ],
  ];
  it("summary -> whether it serves and leads, its version, and the days of its certificate", () => {
    const leads = { serving: true, needs: all, certificateLeftMs: 3.9 * 86_400_000 };
    expect(serviceSummary("director", lacks("", leads))).to.equal(
      `the director that was asked serves, leads, and is of version ${VERSION}; its certificate is valid for 3 days`,
    );
    expect(serviceSummary("director", lacks("leader", { standsByFor: "h:1" }))).to.equal(
      `the director that was asked does not serve, stands by for h:1, and is of version ${VERSION}`,
    );
  });

  for (const [what, report, reasons, says] of rows)
    it(`${what} -> ${reasons || "no cause"}`, () => {
      const causes = serviceCauses(SUBJECT, report);
      expect(causes.map(({ reason }) => reason).join()).to.equal(reasons);
      expect(causes.map(({ message }) => message).join()).to.match(says);
      for (const { sinceMs, cures } of causes) expect([sinceMs, cures?.length]).to.deep.equal([5, 1]);
      if (reasons === "STANDS_BY") expect(causes[0]?.nextTryAtMs).to.equal(9);
    });
});
