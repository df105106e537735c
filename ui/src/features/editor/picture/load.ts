// The picture's heavy part (parser, layout, flow), in one chunk that comes after the first paint.
export { default as LivePicture } from "./LivePicture.svelte";
