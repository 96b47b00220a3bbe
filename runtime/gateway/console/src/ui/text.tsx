import type { ComponentChildren, JSX, VNode } from "preact";
import { h } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { ansi } from "../core/ansi.ts";
import { jsonText } from "../core/find.ts";
import { formula } from "../core/math.ts";
import type { MathNode } from "../core/math.ts";
import { linkTarget, visible } from "../core/safe.ts";
import { SyntaxLines, fenceLanguage } from "../core/syntax.ts";
import type { SyntaxLanguage, SyntaxLine, SyntaxState, SyntaxToken } from "../core/syntax.ts";
import type { Block } from "../core/markdown.ts";
import type { Inline } from "../core/inline.ts";
import type { Json } from "../core/types.ts";
import { Copy } from "./bits.tsx";

/** What one view of a text draws at first. */
export const FIRST = 24_000;

function inlines(nodes: Inline[]): ComponentChildren {
  return nodes.map((node) => {
    if (typeof node === "string") return node;
    if (node.t === "br") return <br />;
    if (node.t === "code") return <code>{node.text}</code>;
    if (node.t === "math") return <Formula text={node.text} display={node.display} />;
    if (node.t === "link") return <Link href={node.href}>{inlines(node.c)}</Link>;
    const Tag = node.t;
    return <Tag>{inlines(node.c)}</Tag>;
  });
}

/** A link shows where it leads, whatever its text says. */
export function Link({ href, children }: { href: string; children: ComponentChildren }): VNode {
  const target = visible(linkTarget(href));
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow" title={href}>
      {children}
      {flat(children) === href ? null : <span class="target"> {target}</span>}
    </a>
  );
}

function flat(children: ComponentChildren): string {
  if (Array.isArray(children)) return children.map(flat).join("");
  return typeof children === "string" ? children : "";
}

/**
 * Element of a heading. The page has the first level, and no level is left out, whatever levels the text has: `outer` holds
 * those that the heading stands under.
 */
function headingTag(level: number, outer: number[]): "h2" {
  while ((outer[outer.length - 1] ?? 0) >= level) outer.pop();
  outer.push(level);
  return `h${Math.min(6, outer.length + 1)}` as "h2";
}

export function blocksOf(blocks: Block[], outer: number[] = []): ComponentChildren {
  return blocks.map((block) => {
    switch (block.t) {
      case "p":
        return <p>{inlines(block.c)}</p>;
      case "h": {
        const Tag = headingTag(block.level, outer);
        return <Tag class={`h${block.level}`}>{inlines(block.c)}</Tag>;
      }
      case "code":
        return <Code text={block.text} lang={block.lang} before={block.before} />;
      case "math":
        return <div><Formula text={block.text} display /></div>;
      case "quote":
        return <blockquote>{blocksOf(block.c, outer)}</blockquote>;
      case "hr":
        return <hr />;
      case "table":
        return (
          <div class="scroll" tabIndex={0} role="group" aria-label="Table">
            <table>
              <thead>
                <tr>{block.head.map((cell, at) => <th class={block.align[at]}>{inlines(cell)}</th>)}</tr>
              </thead>
              <tbody>
                {block.rows.map((row) => (
                  <tr>{row.map((cell, at) => <td class={block.align[at]}>{inlines(cell)}</td>)}</tr>
                ))}
              </tbody>
            </table>
          </div>
        );
      case "list": {
        const items = block.items.map((item) => (
          <li class={item.task === undefined ? "" : "task"}>
            {item.task === undefined ? null : (
              <input type="checkbox" checked={item.task} disabled aria-label={item.task ? "done" : "to do"} />
            )}
            {block.tight ? tight(item.c, outer) : blocksOf(item.c, outer)}
          </li>
        ));
        return block.ordered ? <ol start={block.start}>{items}</ol> : <ul>{items}</ul>;
      }
    }
  });
}

/** Items of a dense list have no paragraphs. */
function tight(blocks: Block[], outer: number[]): ComponentChildren {
  return blocks.map((block) => (block.t === "p" ? inlines(block.c) : blocksOf([block], outer)));
}

const mathElement = (tree: MathNode): VNode => h(tree.tag, tree.attributes, tree.c.map((each) => (typeof each === "string" ? each : mathElement(each))));

/** Sources of this length fit into a narrow line; longer formulas scroll by themselves. */
const SHORT_FORMULA = 40;

/** A formula as MathML, or as its source if it is too deep. */
function Formula({ text, display }: { text: string; display: boolean }): JSX.Element {
  const tree = useMemo(() => formula(text), [text]);
  if (!tree) return <code>{text}</code>;
  const drawn = <math class="tex" display={display ? "block" : "inline"}>{mathElement(tree)}</math>;
  if (!display && text.length <= SHORT_FORMULA) return drawn;
  return <span class={display ? "formula" : "formula within"} tabIndex={0} role="group" aria-label="Formula">{drawn}</span>;
}

export function Code({ text, lang, before }: { text: string; lang: string; before?: SyntaxState | undefined }): VNode {
  return (
    <figure class="code">
      <figcaption>
        <span>{lang || "text"}</span>
        <Copy text={() => text} label="Copy code" />
      </figcaption>
      <pre tabIndex={0} role="group" aria-label="Code">{lang === "ansi" ? <Ansi text={text} /> : <code><Coloured text={text} language={fenceLanguage(lang)} before={before} /></code>}</pre>
    </figure>
  );
}

const styled = (tokens: SyntaxToken[]): ComponentChildren => tokens.map((token) => (token.style === "" ? token.text : <span class={token.style}>{token.text}</span>));

/** The tokens of a line as elements. */
export const LineTokens = ({ line }: { line: SyntaxLine }): VNode => <>{styled(line.tokens)}</>;

/** A text of code with its colours. Lines that have not changed are not drawn again. */
export function Coloured({ text, language, before }: { text: string; language: SyntaxLanguage | undefined; before?: SyntaxState | undefined }): VNode {
  const kept = useRef<{ lines: SyntaxLines; drawn: WeakMap<SyntaxLine, VNode> } | undefined>(undefined);
  if (!language) return <>{text}</>;
  if (kept.current?.lines.language !== language || kept.current.lines.before !== before) kept.current = { lines: new SyntaxLines(language, before), drawn: new WeakMap() };
  const { lines, drawn } = kept.current;
  lines.update(text);
  const elements = lines.lines.map((line, at) => {
    const known = drawn.get(line);
    const element = known ?? <>{at > 0 && "\n"}{styled(line.tokens)}</>;
    if (!known) drawn.set(line, element);
    return element;
  });
  return <>{elements}{lines.rest}</>;
}

export function Ansi({ text }: { text: string }): VNode {
  return (
    <code>
      {ansi(text).map((piece) => (piece.style === "" ? piece.text : <span class={piece.style}>{piece.text}</span>))}
    </code>
  );
}

/**
 * Text of a terminal, in a box that scrolls; of a long one the begin, or the end, until more is asked for. `strict` makes
 * characters visible that hide or turn others.
 */
export function Output({ text, end = false, strict = false, language, label }: { text: string; end?: boolean; strict?: boolean; language?: SyntaxLanguage | undefined; label: string }): JSX.Element {
  const [shown, show] = useState(FIRST);
  const over = text.length - shown;
  const part = over <= 0 ? text : end ? text.slice(-shown) : text.slice(0, shown);
  const shownText = strict ? visible(part) : part;
  const more = over > 0 && (
    <button type="button" class="quiet more" onClick={() => show(shown * 3)}>
      {over.toLocaleString("en")} more characters
    </button>
  );
  return (
    <div class="output">
      {end && more}
      <pre tabIndex={0} role="group" aria-label={label}>{language ? <code><Coloured text={shownText} language={language} /></code> : <Ansi text={shownText} />}</pre>
      {!end && more}
    </div>
  );
}

/** A value as JSON; a text as that text. */
export function Value({ value, label }: { value: Json | undefined; label: string }): JSX.Element {
  const text = useMemo(() => jsonText(value), [value]);
  return <Output text={text} strict label={label} />;
}
