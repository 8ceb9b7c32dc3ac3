import { readFileSync } from "node:fs";
import { join } from "node:path";
import { REASONS } from "@diskmesh/domain";
import { repositoryFolder } from "../repository-folder.js";
import { pageHead, table } from "./markdown.js";

const HEAD = pageHead(
  "Errors",
  `An error over gRPC carries \`google.rpc.ErrorInfo\` with the domain \`diskmesh\`, a reason from this page, and in its metadata what the error is
about (\`host_id\`, \`leader_address\` and so on). \`google.rpc.BadRequest\` names the field that is wrong. \`google.rpc.RetryInfo\` says when to
try again: always with \`UNAVAILABLE\`, and with others where the server knows. Over HTTPS, routes of
BOSH answer BOSH's codes. A task that fails keeps the reason of its error.`,
  `Programs branch on the reason, never on the message. Each reason has one gRPC code. New reasons may come: treat an unknown reason by its
code. An \`INTERNAL\` error without \`ErrorInfo\` is a bug; the server's log has it under the request id in the message.`,
);

const ACTIONS = `## Action codes

\`AddHost\`, \`RemoveHost\`, \`AddDevice\` and the other actions of the registry answer an \`ActionResult\`, whose code is no error. An action
that the state of a host or device forbids has changed nothing, and fails with a reason of this page.`;

/** Returns the text of docs/reference/errors.md. */
export function errorsPage(): string {
  const byCode = new Map<string, string[]>();
  for (const [reason, { code, meaning, cure }] of Object.entries(REASONS))
    byCode.set(code, [...(byCode.get(code) ?? []), `### ${reason}\n\n${meaning}\n\n**Cure.** ${cure}`]);
  const sections = [...byCode].map(([code, reasons]) => [`## Status ${code}`, ...reasons].join("\n\n"));
  const actions = table(
    ["code", "meaning"],
    actionCodes().map(([code, meaning]) => [`\`${code}\``, meaning]),
  );
  return `${[HEAD, ...sections, ACTIONS, actions].join("\n\n")}\n`;
}

function actionCodes(): readonly (readonly [string, string])[] {
  const text = readFileSync(join(repositoryFolder, "proto/diskmesh/registry/v1/types.proto"), "utf8");
  const [, body = ""] = /enum ActionCode \{(.*?)\n\}/s.exec(text) ?? [];
  const values = [...body.matchAll(/((?:\s+\/\/ .*\n)+)\s+ACTION_CODE_(\w+) = [1-9]/g)];
  return values.map(([, comment = "", code = ""]) => [code, comment.replace(/\s+(?:\/\/ )?/g, " ").trim()]);
}
