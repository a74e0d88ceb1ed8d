// A table that sorts, and that changes only the cells that differ when its rows change: the focus, a selection and the
// scroll position stay. Long tables appear in pieces, so that the first rows are there at once.

import {h, icon, replace} from './dom.js';

const kFirstRows = 40;
const kRowsAPiece = 240;

/// A cell that is an element: it is made again only if `signature` differs.
export const cell = (signature, make) => ({signature: String(signature), make});

function fill(td, content) {
  const signature =
    typeof content === 'object' && content !== null && 'make' in content ? `:${content.signature}` : `"${content}`;
  if (td.signature === signature) return;
  td.signature = signature;
  if (typeof content === 'object' && content !== null && 'make' in content)
    replace(td, content.make());
  else
    td.textContent = content ?? '';
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;  // what is not known comes last
  if (b === null || b === undefined) return -1;
  return typeof a === 'string' && typeof b === 'string' ? a.localeCompare(b, 'en', {numeric: true}) : a < b ? -1 : 1;
}

/// Columns: {key, label, title?, cell(row) -> text or cell(), by?(row) -> value to sort by, number?, wide?, hide?('m'):
/// in narrow windows, width?: in px, of a table whose columns all have a fixed width but the wide one; it appears
/// faster}. Options: caption (for screen readers), key(row), sort {key, descending}, on_sort(sort): sort elsewhere;
/// row_class(row), empty(), limit: so many rows, after they are sorted; on_row(row or null): it is pointed at.
export class Table {
  constructor(columns, options) {
    this.columns = columns;
    this.options = options;
    this.sort = options.sort ?? null;
    this.rows = [];
    this.by_key = new Map();
    this.head = h('tr', {}, columns.map((column) => this.header(column)));
    this.body = h('tbody');
    if (options.on_row) this.tell_rows();
    const widths = columns.some((column) => column.width) &&
      h('colgroup', {},
        columns.map(
          (column) => h('col',
            {class: column.hide && `hide-${column.hide}`, css: column.width ? {width: `${column.width}px`} : {}})));
    this.table = h('table', {class: `table ${options.kind ?? ''} ${widths ? 'fixed' : ''}`},
      h('caption', {class: 'sr'}, options.caption), widths || '', h('thead', {}, this.head), this.body);
    this.empty = h('div', {class: 'empty', hidden: true});
    this.element = h('div', {class: 'table-frame'},
      h('div', {class: 'table-scroll', tabindex: 0, role: 'region', 'aria-label': options.caption}, this.table),
      this.empty);
  }

  tell_rows() {
    const {on_row} = this.options;
    this.body.addEventListener('pointerover', (event) => on_row(event.target.closest('tr')?.row ?? null));
    this.body.addEventListener('pointerleave', () => on_row(null));
    this.body.addEventListener('focusin', (event) => on_row(event.target.closest('tr')?.row ?? null));
    this.body.addEventListener('focusout', () => on_row(null));
  }

  header(column) {
    const classes =
      [column.number && 'number', column.hide && `hide-${column.hide}`, column.wide && 'wide'].filter(Boolean).join(
        ' ');
    if (!column.by) return h('th', {scope: 'col', class: classes, title: column.title}, column.label);
    const button =
      h('button', {type: 'button', class: 'sort', on: {click: () => this.sort_by(column)}}, column.label, icon('down'));
    return h('th', {scope: 'col', class: classes, title: column.title, data: {key: column.key}}, button);
  }

  sort_by(column) {
    const same = this.sort?.key === column.key;
    this.sort = {key: column.key, descending: same ? !this.sort.descending : Boolean(column.number)};
    if (this.options.on_sort)
      this.options.on_sort(this.sort);
    else
      this.update(this.rows);
  }

  sorted(rows) {
    const column = this.sort && !this.options.on_sort && this.columns.find((one) => one.key === this.sort.key);
    if (!column) return rows;
    const sign = this.sort.descending ? -1 : 1;
    return rows.map((row) => [column.by(row), row])
      .sort(([a], [b]) => {
        const missing = (a === null || a === undefined) !== (b === null || b === undefined);
        return missing ? compare(a, b) : sign * compare(a, b);
      })
      .map(([, row]) => row);
  }

  /// Show these rows.
  update(rows) {
    this.rows = rows;
    for (const th of this.head.children)
      if (th.dataset.key)
        th.setAttribute('aria-sort',
          th.dataset.key !== this.sort?.key ? 'none'
            : this.sort.descending          ? 'descending'
                                            : 'ascending');
    this.table.hidden = rows.length === 0;
    this.empty.hidden = rows.length !== 0;
    if (rows.length === 0) replace(this.empty, this.options.empty?.() ?? 'Nothing yet.');
    const sorted = this.sorted(rows).slice(0, this.options.limit);
    const wanted = new Set(sorted.map(this.options.key));
    for (const [key, tr] of this.by_key)
      if (!wanted.has(key)) {
        tr.remove();
        this.by_key.delete(key);
      }
    cancelAnimationFrame(this.pending);
    this.place(sorted, 0, Math.max(kFirstRows, this.body.children.length));
  }

  place(rows, from, to) {
    for (let index = from; index < Math.min(to, rows.length); ++index) {
      const row = rows[index];
      const key = this.options.key(row);
      let tr = this.by_key.get(key);
      if (!tr) this.by_key.set(key, (tr = this.row_element()));
      tr.row = row;
      this.columns.forEach((column, at) => fill(tr.children[at], column.cell(row)));
      tr.className = this.options.row_class?.(row) ?? '';
      if (this.body.children[index] !== tr) this.body.insertBefore(tr, this.body.children[index] ?? null);
    }
    if (to < rows.length) this.pending = requestAnimationFrame(() => this.place(rows, to, to + kRowsAPiece));
  }

  row_element() {
    return h('tr', {}, this.columns.map((column) => h('td', {
      class:
        [column.number && 'number', column.hide && `hide-${column.hide}`, column.wide && 'wide'].filter(Boolean).join(
          ' '),
      data: {label: column.label}
    })));
  }
}
