import type { JoinToken } from "@diskmesh/api/registry";
import { quoted } from "@diskmesh/domain";
import { allPages } from "@diskmesh/rpc";
import { UsageError } from "../../output/exit-codes.js";
import { type Columns, timeText } from "../../output/output.js";
import { countOf, secondsOf } from "../../output/values.js";
import { type Action, type ActionCall, textOption } from "../action.js";

const MAX_USES = 10_000;

const COLUMNS: Columns<JoinToken> = {
  id: ({ tokenId }) => tokenId,
  state: ({ state }) => state.replace("JOIN_TOKEN_STATE_", ""),
  hosts: ({ hosts }) => hosts,
  uses: ({ uses, usesLeft }) => `${uses - usesLeft}/${uses}`,
  ends: ({ expireTime }) => timeText(expireTime),
  by: ({ createdBy }) => createdBy,
  awaited: ({ awaitedHostIds }) => awaitedHostIds.join(" "),
};

const VERBS: Readonly<Record<string, (call: ActionCall, tokenIds: readonly string[]) => Promise<void>>> = {
  create,
  list,
  revoke,
};

export const joinToken: Action = {
  usage: "join-token <verb> [token-ids...]",
  summary: `manage the tokens with which hosts join by themselves; verbs: ${Object.keys(VERBS).join(", ")}`,
  options: [
    ["--ttl <time>", "time until a new token ends, at most 30d (1h)"],
    ["--hosts <pattern>", "ids of hosts that may join by a new token, with * for any characters (all)"],
    ["--uses <count>", "number of hosts that may join by a new token (1)"],
  ],
  example: "diskmesh join-token create --ttl 1h --hosts 'rack7-*' --uses 20",
  run: async (call) => {
    const [verb = "", ...tokenIds] = call.args;
    const run = Object.hasOwn(VERBS, verb) ? VERBS[verb] : undefined;
    if (run === undefined) throw new UsageError(`${quoted(verb)} is none of ${Object.keys(VERBS).join(", ")}`);
    await run(call, tokenIds);
  },
};

async function create({ mesh, output, options }: ActionCall, tokenIds: readonly string[]): Promise<void> {
  none(tokenIds);
  const answer = await mesh.joinTokens.createJoinToken({
    ttl: { seconds: secondsOf("--ttl", textOption(options, "ttl") || "1h"), nanos: 0 },
    hosts: textOption(options, "hosts"),
    uses: countOf("--uses", textOption(options, "uses") || "1", MAX_USES),
  });
  output.answer(answer, answer.token);
}

async function list({ mesh, output }: ActionCall, tokenIds: readonly string[]): Promise<void> {
  none(tokenIds);
  const joinTokens = await allPages(async (pageToken) => {
    const page = await mesh.joinTokens.listJoinTokens({ pageToken });
    return { items: page.joinTokens, nextPageToken: page.nextPageToken };
  });
  output.list(COLUMNS, joinTokens, "there are no join tokens");
}

async function revoke({ mesh, output }: ActionCall, tokenIds: readonly string[]): Promise<void> {
  if (tokenIds.length === 0)
    throw new UsageError("no token is given: give the ids that `diskmesh join-token list` shows");
  for (const tokenId of tokenIds) await mesh.joinTokens.revokeJoinToken({ tokenId });
  output.answer({ revoked: tokenIds }, `revoked ${tokenIds.join(" ")}: certificates that it has brought stay valid`);
}

function none(tokenIds: readonly string[]): void {
  if (tokenIds.length > 0) throw new UsageError("the verb takes no token ids");
}
