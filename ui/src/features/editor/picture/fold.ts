// Which groups are folded. Large pictures start with their big groups folded; the owner's own clicks turn that around.
import { leavesOf, type Item, type Phase } from "../../../shared/picture/model";

const FOLD_FROM = 200; // leaves in the whole picture
const BIG = 6; // leaves in one group

export function shutAtFirst(phases: readonly Phase[], flipped: ReadonlySet<string>): ReadonlySet<string> {
  const leaves = phases.reduce((sum, phase) => sum + [...leavesOf(phase.items)].length, 0);
  const shut = new Set<string>();
  const visit = (items: readonly Item[], id: string) =>
    items.forEach((item, i) => {
      if (item.type === "leaf") return;
      const mine = `${id}.${i}`;
      // What another Graph does is shown when it is asked for.
      const byDefault = item.kind === "graph" || (leaves > FOLD_FROM && [...leavesOf([item])].length > BIG);
      if (byDefault !== flipped.has(mine)) shut.add(mine);
      item.lanes.forEach((lane, l) => visit(lane.items, `${mine}.${l}`));
    });
  phases.forEach((phase, i) => visit(phase.items, `p${i}`));
  return shut;
}
